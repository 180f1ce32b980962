/* SPDX-License-Identifier: Apache-2.0 */
/* A file cut short would kill the process in the dynamic linker, so its size is checked first. */
#pragma once

#include "base/weft-error.h"

/* Whether the file is an ELF file with all its segments and its section table. */
gboolean weft_elf_check_complete (const gchar *path, GError **error);
