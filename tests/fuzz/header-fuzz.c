/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a whole safetensors file: the scanner accepts or refuses with a message, and what it accepts is sound. */
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/weft-header-scanner-private.h"

int LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t n_bytes);

static void
check_accepted (const WeftHeader *header, guint64 data_size)
{
  guint64 end = 0;

  for (guint i = 0; i < header->entries->len; i++)
    {
      const WeftHeaderEntry *entry = &g_array_index (header->entries, WeftHeaderEntry, i);

      g_assert_cmpuint (entry->begin, ==, end);
      g_assert_cmpuint (entry->dims_start + entry->rank, <=, header->dims->len);
      g_assert_true (g_utf8_validate (entry->name, -1, NULL));
      end = entry->end;
    }
  g_assert_cmpuint (end, ==, data_size);
}

int
LLVMFuzzerTestOneInput (const uint8_t *bytes, size_t n_bytes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftHeader) header = NULL;
  guint64 data_size;
  gsize n_json;

  if (weft_header_read_length (bytes, n_bytes, "fuzz", &n_json, &error))
    {
      data_size = n_bytes - WEFT_HEADER_LENGTH_BYTES - n_json;
      header = weft_header_scan ((const gchar *) bytes + WEFT_HEADER_LENGTH_BYTES, n_json, data_size, "fuzz",
                                 &error);
      if (header != NULL)
        check_accepted (header, data_size);
    }
  g_assert_true ((header == NULL) == (error != NULL));
  return 0;
}
