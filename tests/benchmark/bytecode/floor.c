/* Copyright (c) 2026 the blackwell.inference authors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The least that any judgement of bytecode must do: walk a tree and ask for the status of every .py and .pyc.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long files;

static int ends_with(const char *name, const char *ending) {
    size_t length = strlen(name), wanted = strlen(ending);
    return length > wanted && strcmp(name + length - wanted, ending) == 0;
}

static void visit(int folder) {
    DIR *entries = fdopendir(folder);
    struct dirent *entry;
    struct stat status;

    if (!entries) {
        close(folder);
        return;
    }
    while ((entry = readdir(entries))) {
        const char *name = entry->d_name;
        if (entry->d_type == DT_DIR) {
            if (strcmp(name, ".") && strcmp(name, "..")) {
                int below = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (below >= 0)
                    visit(below);
            }
        } else if (ends_with(name, ".py") || ends_with(name, ".pyc")) {
            if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
                files++;
        }
    }
    closedir(entries);
}

int main(int count, char **arguments) {
    int top = count == 2 ? open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (top < 0) {
        fprintf(stderr, "usage: floor FOLDER\n");
        return 2;
    }
    visit(top);
    printf("%ld\n", files);
    return 0;
}
