/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-op-parameters-private.h"

#include "weft-enums.h"

/* A parameter never changes once its op is made. */
#define PARAMETER_FLAGS (G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS)

typedef struct
{
  gsize offset;
  WeftOpParameterFlags flags;
} Storage;

static GQuark
storage_quark (void)
{
  return g_quark_from_static_string ("weft-op-parameter-storage");
}

static Storage *
get_storage (GParamSpec *pspec)
{
  return g_param_spec_get_qdata (pspec, storage_quark ());
}

static void
set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  const Storage *storage = get_storage (pspec);

  g_return_if_fail (storage != NULL);
  if (G_IS_PARAM_SPEC_INT64 (pspec))
    G_STRUCT_MEMBER (gint64, object, storage->offset) = g_value_get_int64 (value);
  else if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    G_STRUCT_MEMBER (gdouble, object, storage->offset) = g_value_get_double (value);
  else if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    G_STRUCT_MEMBER (gboolean, object, storage->offset) = g_value_get_boolean (value);
  else if (G_IS_PARAM_SPEC_STRING (pspec))
    G_STRUCT_MEMBER (gchar *, object, storage->offset) = g_value_dup_string (value);
  else if (G_IS_PARAM_SPEC_BOXED (pspec))
    G_STRUCT_MEMBER (GStrv, object, storage->offset) = g_value_dup_boxed (value);
  else if (G_IS_PARAM_SPEC_ENUM (pspec))
    G_STRUCT_MEMBER (WeftDtype, object, storage->offset) = g_value_get_enum (value);
  else
    G_STRUCT_MEMBER (GVariant *, object, storage->offset) = g_value_dup_variant (value);
}

static void
get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  const Storage *storage = get_storage (pspec);

  g_return_if_fail (storage != NULL);
  if (G_IS_PARAM_SPEC_INT64 (pspec))
    g_value_set_int64 (value, G_STRUCT_MEMBER (gint64, object, storage->offset));
  else if (G_IS_PARAM_SPEC_DOUBLE (pspec))
    g_value_set_double (value, G_STRUCT_MEMBER (gdouble, object, storage->offset));
  else if (G_IS_PARAM_SPEC_BOOLEAN (pspec))
    g_value_set_boolean (value, G_STRUCT_MEMBER (gboolean, object, storage->offset));
  else if (G_IS_PARAM_SPEC_STRING (pspec))
    g_value_set_string (value, G_STRUCT_MEMBER (gchar *, object, storage->offset));
  else if (G_IS_PARAM_SPEC_BOXED (pspec))
    g_value_set_boxed (value, G_STRUCT_MEMBER (GStrv, object, storage->offset));
  else if (G_IS_PARAM_SPEC_ENUM (pspec))
    g_value_set_enum (value, (gint) G_STRUCT_MEMBER (WeftDtype, object, storage->offset));
  else
    g_value_set_variant (value, G_STRUCT_MEMBER (GVariant *, object, storage->offset));
}

/* The id of a property only has to be positive: the offset tells where it lives. */
static void
add_parameter (WeftConversionOpsBaseClass *klass, GParamSpec *pspec, gsize offset)
{
  Storage *storage = g_new (Storage, 1);
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  storage->offset = offset;
  storage->flags = WEFT_OP_PARAMETER_FLAGS_NONE;
  g_param_spec_set_qdata_full (pspec, storage_quark (), storage, g_free);
  /* GObject does not inherit these two. */
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  g_object_class_install_property (object_class, 1, pspec);
}

/**
 * weft_op_class_add_int: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @minimum: least value
 * @maximum: greatest value
 * @default_value: default
 * @offset: offset of a #gint64 in the instance, in bytes
 *
 * Declares a parameter that is a whole number. The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_int (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                       const gchar *blurb, gint64 minimum, gint64 maximum, gint64 default_value, gsize offset)
{
  add_parameter (klass,
                 g_param_spec_int64 (name, nick, blurb, minimum, maximum, default_value, PARAMETER_FLAGS),
                 offset);
}

/**
 * weft_op_class_add_double: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @minimum: least value
 * @maximum: greatest value
 * @default_value: default
 * @offset: offset of a #gdouble in the instance, in bytes
 *
 * Declares a parameter that is a number. The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_double (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                          const gchar *blurb, gdouble minimum, gdouble maximum, gdouble default_value,
                          gsize offset)
{
  add_parameter (klass,
                 g_param_spec_double (name, nick, blurb, minimum, maximum, default_value, PARAMETER_FLAGS),
                 offset);
}

/**
 * weft_op_class_add_boolean: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @default_value: default
 * @offset: offset of a #gboolean in the instance, in bytes
 *
 * Declares a parameter that is true or false. The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_boolean (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                           const gchar *blurb, gboolean default_value, gsize offset)
{
  add_parameter (klass, g_param_spec_boolean (name, nick, blurb, default_value, PARAMETER_FLAGS), offset);
}

/**
 * weft_op_class_add_string: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @default_value: (nullable): default
 * @offset: offset of a `gchar *` in the instance, in bytes; the base class owns and frees it
 *
 * Declares a parameter that is a string or absent. The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_string (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                          const gchar *blurb, const gchar *default_value, gsize offset)
{
  add_parameter (klass, g_param_spec_string (name, nick, blurb, default_value, PARAMETER_FLAGS), offset);
}

/**
 * weft_op_class_add_strings: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @offset: offset of a #GStrv in the instance, in bytes; the base class owns and frees it
 *
 * Declares a parameter that is a list of strings or absent (%NULL, the default). The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_strings (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                           const gchar *blurb, gsize offset)
{
  add_parameter (klass, g_param_spec_boxed (name, nick, blurb, G_TYPE_STRV, PARAMETER_FLAGS), offset);
}

/**
 * weft_op_class_add_dtype: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @default_value: default; %WEFT_DTYPE_INVALID stands for none
 * @offset: offset of a #WeftDtype in the instance, in bytes
 *
 * Declares a parameter that is a dtype, in JSON its name. The strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_dtype (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                         const gchar *blurb, WeftDtype default_value, gsize offset)
{
  add_parameter (
      klass, g_param_spec_enum (name, nick, blurb, WEFT_TYPE_DTYPE, (gint) default_value, PARAMETER_FLAGS),
      offset);
}

/**
 * weft_op_class_add_variant: (skip)
 * @klass: class of an op
 * @name: name of the parameter, with `-`; JSON writes it with `_`
 * @nick: name for people
 * @blurb: a sentence
 * @type_string: its type, such as `ax` (whole numbers) or `a{ss}` (a map of strings)
 * @default_value: (nullable): default, in the text format of #GVariant
 * @offset: offset of a `GVariant *` in the instance, in bytes; the base class owns and frees it
 *
 * Declares a composite parameter. Where the type is an array, JSON may give a single element without brackets. The
 * strings must be static.
 *
 * Since: 1.0
 */
void
weft_op_class_add_variant (WeftConversionOpsBaseClass *klass, const gchar *name, const gchar *nick,
                           const gchar *blurb, const gchar *type_string, const gchar *default_value,
                           gsize offset)
{
  const GVariantType *type = G_VARIANT_TYPE (type_string);
  GVariant *value = default_value != NULL ? g_variant_parse (type, default_value, NULL, NULL, NULL) : NULL;

  g_return_if_fail ((value != NULL) == (default_value != NULL));
  add_parameter (klass, g_param_spec_variant (name, nick, blurb, type, value, PARAMETER_FLAGS), offset);
}

/**
 * weft_op_class_set_parameter_flags: (skip)
 * @klass: class of an op
 * @name: name of a parameter that the class declared
 * @flags: how it is read and written
 *
 * Since: 1.0
 */
void
weft_op_class_set_parameter_flags (WeftConversionOpsBaseClass *klass, const gchar *name,
                                   WeftOpParameterFlags flags)
{
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_CLASS (klass), name);

  g_return_if_fail (pspec != NULL && get_storage (pspec) != NULL);
  get_storage (pspec)->flags = flags;
}

WeftOpParameterFlags
weft_op_parameter_get_flags (GParamSpec *pspec)
{
  const Storage *storage = get_storage (pspec);

  return storage != NULL ? storage->flags : WEFT_OP_PARAMETER_FLAGS_NONE;
}

GPtrArray *
weft_op_class_list_parameters (GObjectClass *klass)
{
  GPtrArray *parameters = g_ptr_array_new ();
  guint n_pspecs = 0;
  g_autofree GParamSpec **pspecs = g_object_class_list_properties (klass, &n_pspecs);

  for (guint i = 0; i < n_pspecs; i++)
    if (pspecs[i]->owner_type != WEFT_TYPE_CONVERSION_OPS_BASE && (pspecs[i]->flags & G_PARAM_WRITABLE) != 0)
      g_ptr_array_add (parameters, pspecs[i]);
  return parameters;
}

void
weft_op_parameters_clear (GObject *object)
{
  g_autoptr (GPtrArray) parameters = weft_op_class_list_parameters (G_OBJECT_GET_CLASS (object));

  for (guint i = 0; i < parameters->len; i++)
    {
      GParamSpec *pspec = parameters->pdata[i];
      const Storage *storage = get_storage (pspec);

      if (storage == NULL)
        continue;
      if (G_IS_PARAM_SPEC_STRING (pspec))
        g_clear_pointer (&G_STRUCT_MEMBER (gchar *, object, storage->offset), g_free);
      else if (G_IS_PARAM_SPEC_BOXED (pspec))
        g_clear_pointer (&G_STRUCT_MEMBER (GStrv, object, storage->offset), g_strfreev);
      else if (G_IS_PARAM_SPEC_VARIANT (pspec))
        g_clear_pointer (&G_STRUCT_MEMBER (GVariant *, object, storage->offset), g_variant_unref);
    }
}
