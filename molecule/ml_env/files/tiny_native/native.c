/* A module that asks a function of another library. */
#include <Python.h>

extern int SYMBOL(void);

static PyObject *ask(PyObject *self, PyObject *arguments) { return PyLong_FromLong(SYMBOL()); }

static PyMethodDef methods[] = {{"ask", ask, METH_NOARGS, "The release that the other library has."}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, methods};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&module); }
