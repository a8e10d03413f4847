/* A module that does nothing but bring a function for other libraries. */
#include <Python.h>

__attribute__((visibility("default"))) int SYMBOL(void) { return RELEASE; }

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_base", NULL, -1, NULL};

PyMODINIT_FUNC PyInit__base(void) { return PyModule_Create(&module); }
