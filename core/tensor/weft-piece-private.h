/* SPDX-License-Identifier: Apache-2.0 */
/* Layout as a list of affine pieces. A piece copies a nest of loops from one base to a region of the tensor.
 * Addresses are flat, row-major, and count units: an element, or for a sub-byte dtype the smallest run of elements that
 * fills whole bytes (2 of F4, 4 of F6). */
#pragma once

#include "tensor/weft-base-private.h"

#define WEFT_MAX_PIECES 65536
#define WEFT_MAX_LOOPS 32

typedef struct
{
  gint64 extent;
  gint64 destination;
  gint64 source;
} WeftLoop;

/* Loops stand by falling destination stride and have extents above 1. */
typedef struct
{
  WeftBase *base;
  gint64 destination;
  gint64 source;
  guint n_loops;
  WeftLoop loops[WEFT_MAX_LOOPS];
} WeftPiece;

/* The stored form: pieces with equal nests, as a stack of experts has, share their loops. */
typedef struct
{
  WeftBase *base;
  gint64 destination;
  gint64 source;
  guint32 first_loop;
  guint32 n_loops;
} WeftStoredPiece;

typedef struct
{
  WeftStoredPiece *pieces;
  WeftLoop *loops;
  guint n_pieces;
  guint n_loops;
  /* Each piece ends before the next begins. */
  gboolean is_sorted;
  /* Its one piece lies behind the tensor, in the same memory. */
  gboolean is_inside_tensor;
} WeftLayout;

/* A layout that grows. One is made for every step of every tensor, so it allocates no more than it hands over. */
typedef struct
{
  WeftLayout layout;
  guint n_pieces_allocated;
  guint n_loops_allocated;
  const gchar *operation;
} WeftLayoutBuilder;

void weft_layout_clear (WeftLayout *self);
void weft_layout_get_piece (const WeftLayout *self, guint position, WeftPiece *piece);
/* The pieces that may reach into destinations [start, stop), as the range [*first, *last) of positions. */
void weft_layout_find_pieces (const WeftLayout *self, gint64 start, gint64 stop, guint *first, guint *last);

void weft_layout_builder_init (WeftLayoutBuilder *self, const gchar *operation);
void weft_layout_builder_clear (WeftLayoutBuilder *self);
gboolean weft_layout_builder_add (WeftLayoutBuilder *self, const WeftPiece *piece, GError **error);
/* Takes all pieces of a layout over as they are; the builder is empty. */
void weft_layout_builder_copy (WeftLayoutBuilder *self, const WeftLayout *layout);
void weft_layout_builder_finish (WeftLayoutBuilder *self, WeftLayout *layout);

/* Called with each part of a piece that was cut. */
typedef gboolean (*WeftPieceFunc) (const WeftPiece *piece, gpointer user_data, GError **error);

/* Copies the loops that are there: a piece has room for many and mostly holds one or two. */
void weft_piece_copy (WeftPiece *piece, const WeftPiece *original);
void weft_piece_normalise (WeftPiece *piece);
gint64 weft_piece_count (const WeftPiece *piece);
gint64 weft_piece_get_last (const WeftPiece *piece);
gint64 weft_piece_get_last_source (const WeftPiece *piece);
gboolean weft_piece_is_identity (const WeftPiece *piece);

/* Cuts a piece so that every loop of its parts moves along one axis of a tensor of these extents and never carries
 * over into the next axis. */
gboolean weft_piece_fit (const WeftPiece *piece, const gint64 *dims, guint rank, const gchar *operation,
                         WeftPieceFunc func, gpointer user_data, GError **error);
/* The part of a piece whose destination, modulo @width, lies in [start, start + length). The piece is fitted to
 * (anything, @width). Destinations of the parts are addresses of the original. */
gboolean weft_piece_cut (const WeftPiece *piece, gint64 width, gint64 start, gint64 length,
                         const gchar *operation, WeftPieceFunc func, gpointer user_data, GError **error);
/* The same loops and addresses with source and destination exchanged. */
void weft_piece_exchange (WeftPiece *piece);
