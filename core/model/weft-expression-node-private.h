/* SPDX-License-Identifier: Apache-2.0 */
/* The parsed form of an expression, between the parser and the evaluator. */
#pragma once

#include "model/weft-expression-private.h"

G_BEGIN_DECLS

typedef enum
{
  WEFT_NODE_LITERAL,
  WEFT_NODE_NAME,
  WEFT_NODE_MEMBER,        /* operand . name */
  WEFT_NODE_INDEX,         /* operand [ operand ] */
  WEFT_NODE_SLICE,         /* operand [ operand : operand ], either may be a literal None */
  WEFT_NODE_CALL,          /* name ( operands ) */
  WEFT_NODE_LIST,          /* [ operands ] */
  WEFT_NODE_COMPREHENSION, /* element, list, condition; name is bound */
  WEFT_NODE_NOT,
  WEFT_NODE_NEGATE,
  WEFT_NODE_AND,
  WEFT_NODE_OR,
  WEFT_NODE_CONDITIONAL, /* if true, condition, if false */
  WEFT_NODE_ARITHMETIC,
  WEFT_NODE_COMPARISON, /* operands, with an operator between each two */
} WeftNodeKind;

typedef enum
{
  WEFT_OPERATOR_ADD,
  WEFT_OPERATOR_SUBTRACT,
  WEFT_OPERATOR_MULTIPLY,
  WEFT_OPERATOR_DIVIDE,
  WEFT_OPERATOR_FLOOR_DIVIDE,
  WEFT_OPERATOR_MODULO,
  WEFT_OPERATOR_POWER,
  WEFT_OPERATOR_EQUAL,
  WEFT_OPERATOR_NOT_EQUAL,
  WEFT_OPERATOR_LESS,
  WEFT_OPERATOR_LESS_EQUAL,
  WEFT_OPERATOR_GREATER,
  WEFT_OPERATOR_GREATER_EQUAL,
  WEFT_OPERATOR_IN,
  WEFT_OPERATOR_NOT_IN,
  WEFT_OPERATOR_IS,
  WEFT_OPERATOR_IS_NOT,
} WeftOperator;

typedef struct
{
  WeftNodeKind kind;
  gchar *name;         /* (nullable) */
  WeftValue literal;   /* of a literal */
  GPtrArray *operands; /* of WeftExpressionNode */
  GArray *operators;   /* (nullable): of WeftOperator */
} WeftExpressionNode;

struct _WeftExpression
{
  gchar *text;
  WeftExpressionNode *root;
};

void weft_expression_node_free (WeftExpressionNode *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftExpressionNode, weft_expression_node_free)

/* The functions that an expression may call. FALSE without an error: there is none of that name. */
gboolean weft_expression_call (const gchar *name, const WeftValue *arguments, guint n_arguments,
                               WeftValue *value, GError **error);

G_END_DECLS
