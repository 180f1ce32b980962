/* SPDX-License-Identifier: Apache-2.0 */
/* Recursive descent, one function a level of precedence, loosest last. */
#include "model/weft-expression-node-private.h"

#include <errno.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_LENGTH 16384

typedef struct
{
  const gchar *text;
  const gchar *at;
  guint depth;
  GError **error;
} Parser;

typedef struct
{
  const gchar *spelling;
  WeftOperator operator;
} Symbol;

/* The grammar is recursive. */
static WeftExpressionNode *parse_expression (Parser *parser);
static WeftExpressionNode *parse_or (Parser *parser);
static WeftExpressionNode *parse_factor (Parser *parser);

void
weft_expression_node_free (WeftExpressionNode *self)
{
  if (self == NULL)
    return;
  g_free (self->name);
  weft_value_clear (&self->literal);
  g_clear_pointer (&self->operands, g_ptr_array_unref);
  g_clear_pointer (&self->operators, g_array_unref);
  g_free (self);
}

static void
free_operand (gpointer operand)
{
  weft_expression_node_free (operand);
}

/* Takes the operands over; trailing %NULL ones are left out. */
static WeftExpressionNode *
new_node (WeftNodeKind kind, const gchar *name, WeftExpressionNode *first, WeftExpressionNode *second)
{
  WeftExpressionNode *self = g_new0 (WeftExpressionNode, 1);

  self->kind = kind;
  self->name = g_strdup (name);
  self->operands = g_ptr_array_new_with_free_func (free_operand);
  if (first != NULL)
    g_ptr_array_add (self->operands, first);
  if (second != NULL)
    g_ptr_array_add (self->operands, second);
  return self;
}

static WeftExpressionNode *
new_literal (WeftValue value)
{
  WeftExpressionNode *self = new_node (WEFT_NODE_LITERAL, NULL, NULL, NULL);

  self->literal = value;
  return self;
}

static WeftExpressionNode *
new_arithmetic (WeftOperator operator, WeftExpressionNode * first, WeftExpressionNode *second)
{
  WeftExpressionNode *self = new_node (WEFT_NODE_ARITHMETIC, NULL, first, second);

  self->operators = g_array_new (FALSE, FALSE, sizeof (WeftOperator));
  g_array_append_val (self->operators, operator);
  return self;
}

static WeftExpressionNode *
fail (Parser *parser, const gchar *expected)
{
  if (parser->error != NULL && *parser->error == NULL)
    g_set_error (parser->error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "expression '%s', character %u: expected %s, found %s%.12s%s", parser->text,
                 (guint) (parser->at - parser->text) + 1, expected, *parser->at != '\0' ? "'" : "the end",
                 parser->at, *parser->at != '\0' ? "'" : "");
  return NULL;
}

static void
skip_spaces (Parser *parser)
{
  while (*parser->at == ' ' || *parser->at == '\t' || *parser->at == '\n')
    parser->at++;
}

static gboolean
is_word_character (gchar c)
{
  return g_ascii_isalnum (c) || c == '_';
}

static gboolean
accept_symbol (Parser *parser, const gchar *symbol)
{
  skip_spaces (parser);
  if (!g_str_has_prefix (parser->at, symbol))
    return FALSE;
  parser->at += strlen (symbol);
  return TRUE;
}

static gboolean
peek_word (Parser *parser, const gchar *word)
{
  gsize length = strlen (word);

  skip_spaces (parser);
  return strncmp (parser->at, word, length) == 0 && !is_word_character (parser->at[length]);
}

static gboolean
accept_word (Parser *parser, const gchar *word)
{
  if (!peek_word (parser, word))
    return FALSE;
  parser->at += strlen (word);
  return TRUE;
}

/* A name that is none of the language's own words. */
static gchar *
accept_name (Parser *parser)
{
  static const gchar *const reserved[] = { "and", "else", "for", "if", "in", "is", "not", "or" };
  const gchar *start;

  skip_spaces (parser);
  start = parser->at;
  for (guint i = 0; i < G_N_ELEMENTS (reserved); i++)
    if (peek_word (parser, reserved[i]))
      return NULL;
  if (!g_ascii_isalpha (*start) && *start != '_')
    return NULL;
  while (is_word_character (*parser->at))
    parser->at++;
  return g_strndup (start, (gsize) (parser->at - start));
}

static WeftExpressionNode *
parse_number (Parser *parser)
{
  const gchar *start = parser->at;
  gchar *end = NULL;
  gint64 integer;
  gdouble real;

  while (g_ascii_isdigit (*parser->at))
    parser->at++;
  if (*parser->at != '.' && *parser->at != 'e' && *parser->at != 'E')
    {
      errno = 0;
      integer = g_ascii_strtoll (start, &end, 10);
      if (errno == 0 && end == parser->at && !is_word_character (*end))
        return new_literal (weft_value_integer (integer));
      parser->at = start;
      return fail (parser, "a whole number of at most 64 bits");
    }
  real = g_ascii_strtod (start, &end);
  parser->at = end;
  return is_word_character (*end) ? fail (parser, "the end of a number")
                                  : new_literal (weft_value_real (real));
}

static WeftExpressionNode *
parse_text (Parser *parser)
{
  gchar quote = *parser->at++;
  g_autoptr (GString) text = g_string_new (NULL);

  for (; *parser->at != quote; parser->at++)
    {
      gboolean is_escaped = *parser->at == '\\';

      parser->at += is_escaped;
      if (*parser->at == '\0' || (is_escaped && *parser->at != '\\' && *parser->at != quote))
        return fail (parser, "the end of a text, with no backslash but before another or a quote");
      g_string_append_c (text, *parser->at);
    }
  parser->at++;
  return new_literal (weft_value_text (text->str, (gssize) text->len));
}

/* Wherever the grammar recurs the depth is counted. */
static WeftExpressionNode *
parse_deeper (Parser *parser, WeftExpressionNode *(*parse) (Parser *parser))
{
  WeftExpressionNode *self = NULL;

  if (++parser->depth > MAX_DEPTH)
    fail (parser, "less nesting (at most 64 levels)");
  else
    self = parse (parser);
  parser->depth--;
  return self;
}

/* What follows `element for`: the list and the condition have no `if` of their own. Takes the element. */
static WeftExpressionNode *
parse_comprehension (Parser *parser, WeftExpressionNode *element)
{
  g_autoptr (WeftExpressionNode) self = new_node (WEFT_NODE_COMPREHENSION, NULL, element, NULL);
  WeftExpressionNode *part;

  self->name = accept_name (parser);
  if (self->name == NULL)
    return fail (parser, "a name");
  if (!accept_word (parser, "in"))
    return fail (parser, "'in'");
  part = parse_deeper (parser, parse_or);
  if (part == NULL)
    return NULL;
  g_ptr_array_add (self->operands, part);
  part =
      accept_word (parser, "if") ? parse_deeper (parser, parse_or) : new_literal (weft_value_boolean (TRUE));
  if (part == NULL)
    return NULL;
  g_ptr_array_add (self->operands, part);
  return g_steal_pointer (&self);
}

/* Operands up to @closing, or a comprehension as the only one, which is a list already. Takes @self and adds to it. */
static WeftExpressionNode *
parse_operands (Parser *parser, WeftExpressionNode *self, const gchar *closing)
{
  g_autoptr (WeftExpressionNode) owned = self;

  while (!accept_symbol (parser, closing))
    {
      WeftExpressionNode *operand;

      if (self->operands->len > 0 && !accept_symbol (parser, ","))
        return fail (parser, "a comma or the closing bracket");
      if (self->operands->len > 0 && accept_symbol (parser, closing))
        break;
      operand = parse_expression (parser);
      if (operand != NULL && self->operands->len == 0 && accept_word (parser, "for"))
        operand = parse_comprehension (parser, operand);
      if (operand == NULL)
        return NULL;
      g_ptr_array_add (self->operands, operand);
    }
  return g_steal_pointer (&owned);
}

static WeftExpressionNode *
parse_name (Parser *parser)
{
  g_autofree gchar *name = accept_name (parser);

  if (name == NULL)
    return fail (parser, "a value");
  if (strcmp (name, "None") == 0 || strcmp (name, "null") == 0)
    return new_literal ((WeftValue) WEFT_VALUE_INIT);
  if (strcmp (name, "True") == 0 || strcmp (name, "true") == 0)
    return new_literal (weft_value_boolean (TRUE));
  if (strcmp (name, "False") == 0 || strcmp (name, "false") == 0)
    return new_literal (weft_value_boolean (FALSE));
  if (accept_symbol (parser, "("))
    return parse_operands (parser, new_node (WEFT_NODE_CALL, name, NULL, NULL), ")");
  return new_node (WEFT_NODE_NAME, name, NULL, NULL);
}

/* A group, or a list in round brackets. */
static WeftExpressionNode *
parse_group (Parser *parser)
{
  g_autoptr (WeftExpressionNode) first = parse_expression (parser);

  if (first == NULL)
    return NULL;
  if (accept_symbol (parser, ")"))
    return g_steal_pointer (&first);
  return parse_operands (parser, new_node (WEFT_NODE_LIST, NULL, g_steal_pointer (&first), NULL), ")");
}

static WeftExpressionNode *
parse_list (Parser *parser)
{
  WeftExpressionNode *self = parse_operands (parser, new_node (WEFT_NODE_LIST, NULL, NULL, NULL), "]");
  gboolean is_comprehension =
      self != NULL && self->operands->len == 1
      && ((WeftExpressionNode *) self->operands->pdata[0])->kind == WEFT_NODE_COMPREHENSION;

  if (is_comprehension && parser->at[-1] == ']')
    {
      WeftExpressionNode *comprehension = g_ptr_array_steal_index (self->operands, 0);

      weft_expression_node_free (self);
      return comprehension;
    }
  return self;
}

static WeftExpressionNode *
parse_atom (Parser *parser)
{
  skip_spaces (parser);
  if (g_ascii_isdigit (*parser->at))
    return parse_number (parser);
  if (*parser->at == '\'' || *parser->at == '"')
    return parse_text (parser);
  if (accept_symbol (parser, "("))
    return parse_group (parser);
  return accept_symbol (parser, "[") ? parse_list (parser) : parse_name (parser);
}

/* What follows `operand [`. Takes the operand. */
static WeftExpressionNode *
parse_index (Parser *parser, WeftExpressionNode *operand)
{
  g_autoptr (WeftExpressionNode) self = new_node (WEFT_NODE_INDEX, NULL, operand, NULL);
  WeftExpressionNode *part =
      accept_symbol (parser, ":") ? new_literal ((WeftValue) WEFT_VALUE_INIT) : parse_expression (parser);

  if (part == NULL)
    return NULL;
  g_ptr_array_add (self->operands, part);
  if (part->kind == WEFT_NODE_LITERAL && part->literal.kind == WEFT_VALUE_NULL)
    self->kind = WEFT_NODE_SLICE;
  else if (accept_symbol (parser, ":"))
    self->kind = WEFT_NODE_SLICE;
  if (self->kind == WEFT_NODE_INDEX)
    return accept_symbol (parser, "]") ? g_steal_pointer (&self) : fail (parser, "']'");
  if (accept_symbol (parser, "]"))
    {
      g_ptr_array_add (self->operands, new_literal ((WeftValue) WEFT_VALUE_INIT));
      return g_steal_pointer (&self);
    }
  part = parse_expression (parser);
  if (part == NULL)
    return NULL;
  g_ptr_array_add (self->operands, part);
  return accept_symbol (parser, "]") ? g_steal_pointer (&self) : fail (parser, "']'");
}

static WeftExpressionNode *
parse_postfix (Parser *parser)
{
  g_autoptr (WeftExpressionNode) self = parse_atom (parser);

  for (guint depth = parser->depth; self != NULL; depth++)
    {
      skip_spaces (parser);
      if (depth > MAX_DEPTH)
        return fail (parser, "fewer members and indices in a row");
      if (accept_symbol (parser, "["))
        self = parse_index (parser, g_steal_pointer (&self));
      else if (accept_symbol (parser, "."))
        {
          g_autofree gchar *name = accept_name (parser);

          if (name == NULL)
            return fail (parser, "the name of a member");
          self = new_node (WEFT_NODE_MEMBER, name, g_steal_pointer (&self), NULL);
        }
      else
        return g_steal_pointer (&self);
    }
  return NULL;
}

static WeftExpressionNode *
parse_power (Parser *parser)
{
  g_autoptr (WeftExpressionNode) base = parse_postfix (parser);
  WeftExpressionNode *exponent;

  if (base == NULL || !accept_symbol (parser, "**"))
    return g_steal_pointer (&base);
  exponent = parse_factor (parser);
  return exponent != NULL ? new_arithmetic (WEFT_OPERATOR_POWER, g_steal_pointer (&base), exponent) : NULL;
}

static WeftExpressionNode *
parse_signed (Parser *parser)
{
  WeftExpressionNode *operand;

  if (accept_symbol (parser, "+"))
    return parse_factor (parser);
  if (!accept_symbol (parser, "-"))
    return parse_power (parser);
  operand = parse_factor (parser);
  return operand != NULL ? new_node (WEFT_NODE_NEGATE, NULL, operand, NULL) : NULL;
}

static WeftExpressionNode *
parse_factor (Parser *parser)
{
  return parse_deeper (parser, parse_signed);
}

/* Operators of one level, from the left. @symbols ends with a %NULL spelling; a longer spelling stands first. */
static WeftExpressionNode *
parse_arithmetic (Parser *parser, const Symbol *symbols, WeftExpressionNode *(*parse) (Parser *parser))
{
  g_autoptr (WeftExpressionNode) self = parse (parser);
  guint n = parser->depth;

  while (self != NULL)
    {
      const Symbol *symbol = symbols;
      WeftExpressionNode *operand;

      while (symbol->spelling != NULL && !accept_symbol (parser, symbol->spelling))
        symbol++;
      if (symbol->spelling == NULL)
        return g_steal_pointer (&self);
      /* A chain of operators is as deep as it is long. */
      operand = ++n <= MAX_DEPTH ? parse (parser) : fail (parser, "fewer operators in a row (at most 64)");
      if (operand == NULL)
        return NULL;
      self = new_arithmetic (symbol->operator, g_steal_pointer (&self), operand);
    }
  return NULL;
}

static WeftExpressionNode *
parse_term (Parser *parser)
{
  static const Symbol symbols[] = { { "//", WEFT_OPERATOR_FLOOR_DIVIDE },
                                    { "/", WEFT_OPERATOR_DIVIDE },
                                    { "*", WEFT_OPERATOR_MULTIPLY },
                                    { "%", WEFT_OPERATOR_MODULO },
                                    { NULL, 0 } };

  return parse_arithmetic (parser, symbols, parse_factor);
}

static WeftExpressionNode *
parse_sum (Parser *parser)
{
  static const Symbol symbols[] = { { "+", WEFT_OPERATOR_ADD },
                                    { "-", WEFT_OPERATOR_SUBTRACT },
                                    { NULL, 0 } };

  return parse_arithmetic (parser, symbols, parse_term);
}

static gboolean
accept_comparison (Parser *parser, WeftOperator *operator)
{
  static const Symbol symbols[] = {
    { "==", WEFT_OPERATOR_EQUAL },      { "!=", WEFT_OPERATOR_NOT_EQUAL },
    { "<=", WEFT_OPERATOR_LESS_EQUAL }, { ">=", WEFT_OPERATOR_GREATER_EQUAL },
    { "<", WEFT_OPERATOR_LESS },        { ">", WEFT_OPERATOR_GREATER },
  };
  const gchar *start;

  for (guint i = 0; i < G_N_ELEMENTS (symbols); i++)
    if (accept_symbol (parser, symbols[i].spelling))
      {
        *operator= symbols[i].operator;
        return TRUE;
      }
  *operator= WEFT_OPERATOR_IN;
  if (accept_word (parser, "in"))
    return TRUE;
  start = parser->at;
  *operator= WEFT_OPERATOR_NOT_IN;
  if (accept_word (parser, "not") && accept_word (parser, "in"))
    return TRUE;
  parser->at = start;
  if (!accept_word (parser, "is"))
    return FALSE;
  *operator= accept_word (parser, "not") ? WEFT_OPERATOR_IS_NOT : WEFT_OPERATOR_IS;
  return TRUE;
}

static WeftExpressionNode *
parse_comparison (Parser *parser)
{
  WeftExpressionNode *first = parse_sum (parser);
  g_autoptr (WeftExpressionNode) self = NULL;
  WeftOperator operator;

  while (first != NULL && accept_comparison (parser, &operator))
    {
      WeftExpressionNode *operand;

      if (self == NULL)
        {
          self = new_node (WEFT_NODE_COMPARISON, NULL, first, NULL);
          self->operators = g_array_new (FALSE, FALSE, sizeof (WeftOperator));
        }
      operand = parse_sum (parser);
      if (operand == NULL)
        return NULL;
      g_ptr_array_add (self->operands, operand);
      g_array_append_val (self->operators, operator);
    }
  return self != NULL ? g_steal_pointer (&self) : first;
}

static WeftExpressionNode *
parse_not (Parser *parser)
{
  WeftExpressionNode *operand;

  if (!accept_word (parser, "not"))
    return parse_comparison (parser);
  operand = parse_deeper (parser, parse_not);
  return operand != NULL ? new_node (WEFT_NODE_NOT, NULL, operand, NULL) : NULL;
}

/* All operands of a row of `and` or `or` are of one node. */
static WeftExpressionNode *
parse_row (Parser *parser, const gchar *word, WeftNodeKind kind,
           WeftExpressionNode *(*parse) (Parser *parser))
{
  WeftExpressionNode *first = parse (parser);
  g_autoptr (WeftExpressionNode) self = NULL;

  while (first != NULL && accept_word (parser, word))
    {
      WeftExpressionNode *operand;

      if (self == NULL)
        self = new_node (kind, NULL, first, NULL);
      operand = parse (parser);
      if (operand == NULL)
        return NULL;
      g_ptr_array_add (self->operands, operand);
    }
  return self != NULL ? g_steal_pointer (&self) : first;
}

static WeftExpressionNode *
parse_and (Parser *parser)
{
  return parse_row (parser, "and", WEFT_NODE_AND, parse_not);
}

static WeftExpressionNode *
parse_or (Parser *parser)
{
  return parse_row (parser, "or", WEFT_NODE_OR, parse_and);
}

/* `a if c else b` */
static WeftExpressionNode *
parse_conditional (Parser *parser)
{
  g_autoptr (WeftExpressionNode) self = NULL;
  g_autoptr (WeftExpressionNode) condition = NULL;
  g_autoptr (WeftExpressionNode) first = parse_or (parser);
  WeftExpressionNode *last;

  if (first == NULL || !accept_word (parser, "if"))
    return g_steal_pointer (&first);
  condition = parse_or (parser);
  if (condition == NULL)
    return NULL;
  if (!accept_word (parser, "else"))
    return fail (parser, "'else'");
  last = parse_expression (parser);
  if (last == NULL)
    return NULL;
  self = new_node (WEFT_NODE_CONDITIONAL, NULL, g_steal_pointer (&first), g_steal_pointer (&condition));
  g_ptr_array_add (self->operands, last);
  return g_steal_pointer (&self);
}

static WeftExpressionNode *
parse_expression (Parser *parser)
{
  return parse_deeper (parser, parse_conditional);
}

WeftExpression *
weft_expression_parse (const gchar *text, GError **error)
{
  g_autoptr (GError) cause = NULL;
  Parser parser = { .text = text, .at = text, .error = &cause };
  g_autoptr (WeftExpressionNode) root = NULL;
  WeftExpression *self;

  if (strlen (text) > MAX_LENGTH)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "expression '%.40s...' is longer than %d characters",
                   text, MAX_LENGTH);
      return NULL;
    }
  root = parse_expression (&parser);
  skip_spaces (&parser);
  if (root != NULL && *parser.at != '\0')
    {
      fail (&parser, "an operator or the end");
      g_clear_pointer (&root, weft_expression_node_free);
    }
  if (root == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  self = g_new0 (WeftExpression, 1);
  self->text = g_strdup (text);
  self->root = g_steal_pointer (&root);
  return self;
}

void
weft_expression_free (WeftExpression *self)
{
  g_free (self->text);
  weft_expression_node_free (self->root);
  g_free (self);
}

const gchar *
weft_expression_get_text (const WeftExpression *self)
{
  return self->text;
}
