/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/weft-elf-private.h"

#include <elf.h>
#include <link.h>
#include <string.h>

typedef ElfW (Ehdr) ElfHeader;
typedef ElfW (Phdr) ElfSegment;

#define OWN_CLASS (sizeof (void *) == 8 ? ELFCLASS64 : ELFCLASS32)

static gboolean
is_inside (gsize size, guint64 offset, guint64 n_bytes)
{
  return offset <= size && n_bytes <= size - offset;
}

static gboolean
has_all_segments (const gchar *bytes, gsize size, const ElfHeader *header)
{
  /* The dynamic linker refuses another word size by itself. */
  if (header->e_ident[EI_CLASS] != OWN_CLASS)
    return TRUE;
  if (header->e_phentsize != sizeof (ElfSegment)
      || !is_inside (size, header->e_phoff, (guint64) header->e_phnum * sizeof (ElfSegment))
      || !is_inside (size, header->e_shoff, (guint64) header->e_shnum * header->e_shentsize))
    return FALSE;
  for (guint i = 0; i < header->e_phnum; i++)
    {
      ElfSegment segment;

      memcpy (&segment, bytes + header->e_phoff + i * sizeof segment, sizeof segment);
      if (!is_inside (size, segment.p_offset, segment.p_filesz))
        return FALSE;
    }
  return TRUE;
}

gboolean
weft_elf_check_complete (const gchar *path, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GMappedFile) file = g_mapped_file_new (path, FALSE, &local_error);
  ElfHeader header;
  gsize size;

  if (file == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "it cannot be read: %s", local_error->message);
      return FALSE;
    }
  size = g_mapped_file_get_length (file);
  if (size < SELFMAG || memcmp (g_mapped_file_get_contents (file), ELFMAG, SELFMAG) != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "it is no ELF file");
      return FALSE;
    }
  if (size >= sizeof header)
    memcpy (&header, g_mapped_file_get_contents (file), sizeof header);
  if (size < sizeof header || !has_all_segments (g_mapped_file_get_contents (file), size, &header))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN,
                   "it is cut short after %" G_GSIZE_FORMAT " bytes: copy it again", size);
      return FALSE;
    }
  return TRUE;
}
