/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "weft-command-help.h"

#define OPTION_COLUMN 28
#define TEXT_COLUMNS 100

const GOptionEntry weft_command_common_options[] = {
  { "quiet", 'q', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (WeftCommandCommonOptions, is_quiet),
    "Print neither progress nor summaries", NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (WeftCommandCommonOptions, is_json),
    "Print the result, or the error, as JSON on standard output", NULL },
  { "help", 'h', 0, G_OPTION_ARG_NONE, WEFT_COMMAND_OPTION (WeftCommandCommonOptions, wants_help),
    "Explain this command", NULL },
  { G_OPTION_REMAINING, 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME_ARRAY,
    WEFT_COMMAND_OPTION (WeftCommandCommonOptions, arguments), NULL, NULL },
  G_OPTION_ENTRY_NULL,
};

static const struct
{
  guint code;
  const gchar *meaning;
} exit_codes[] = {
  { WEFT_COMMAND_DONE, "done" },
  { WEFT_COMMAND_FAILED, "failed or refused; the message on standard error says why and what to do" },
  { WEFT_COMMAND_USAGE, "the command line is wrong" },
  { WEFT_COMMAND_DIFFERS, "there is a difference, where a command looks for one" },
  { 130, "interrupted (SIGINT); 143: terminated (SIGTERM)" },
};

static gboolean
is_hidden (const GOptionEntry *option)
{
  return (option->flags & G_OPTION_FLAG_HIDDEN) != 0;
}

/* Appends @text wrapped at TEXT_COLUMNS; continuation lines start at @indent, where the first one already stands. */
static void
append_wrapped (GString *out, const gchar *text, guint indent)
{
  g_auto (GStrv) words = g_strsplit (text, " ", -1);
  guint column = indent;

  for (guint i = 0; words[i] != NULL; i++)
    {
      guint width = (guint) g_utf8_strlen (words[i], -1);

      if (i > 0 && column + 1 + width > TEXT_COLUMNS)
        {
          g_string_append_printf (out, "\n%*s", (gint) indent, "");
          column = indent;
        }
      else if (i > 0)
        {
          g_string_append_c (out, ' ');
          column++;
        }
      g_string_append (out, words[i]);
      column += width;
    }
  g_string_append_c (out, '\n');
}

static void
append_paragraphs (GString *out, const gchar *text)
{
  g_auto (GStrv) paragraphs = g_strsplit (text, "\n\n", -1);

  for (guint i = 0; paragraphs[i] != NULL; i++)
    {
      g_string_append_c (out, '\n');
      append_wrapped (out, paragraphs[i], 0);
    }
}

/* `-o, --output=PATH` */
static gchar *
option_synopsis (const GOptionEntry *option)
{
  GString *out = g_string_new (NULL);

  if (option->short_name != 0)
    g_string_append_printf (out, "-%c, ", option->short_name);
  g_string_append_printf (out, "--%s", option->long_name);
  if (option->arg_description != NULL)
    g_string_append_printf (out, "=%s", option->arg_description);
  return g_string_free (out, FALSE);
}

static void
append_options (GString *out, const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_autofree gchar *synopsis = option_synopsis (option);

      if (is_hidden (option))
        continue;
      if (strlen (synopsis) > OPTION_COLUMN - 4)
        g_string_append_printf (out, "  %s\n%*s", synopsis, OPTION_COLUMN, "");
      else
        g_string_append_printf (out, "  %-*s", OPTION_COLUMN - 2, synopsis);
      append_wrapped (out, option->description, OPTION_COLUMN);
    }
}

static void
append_exit_codes (GString *out, const WeftCommandEntry *entry)
{
  g_string_append (out, "\nExit codes:\n");
  for (guint i = 0; i < G_N_ELEMENTS (exit_codes); i++)
    {
      gboolean is_difference = exit_codes[i].code == WEFT_COMMAND_DIFFERS;

      if (is_difference && entry != NULL && entry->differs == NULL)
        continue;
      g_string_append_printf (out, "  %3u  %s\n", exit_codes[i].code,
                              is_difference && entry != NULL ? entry->differs : exit_codes[i].meaning);
    }
}

gchar *
weft_command_help_overview (void)
{
  GString *out =
      g_string_new ("Usage: weft COMMAND [OPTION...] [ARGUMENT...]\n\n"
                    "Takes a safetensors checkpoint into the layout that a runtime wants, and back.\n\n"
                    "Commands:\n");

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    g_string_append_printf (out, "  %-10s %s\n", weft_command_entries[i]->name,
                            weft_command_entries[i]->summary);
  g_string_append (out, "\nOptions:\n"
                        "  -h, --help    Show this overview\n"
                        "  --version     Show the version\n");
  append_exit_codes (out, NULL);
  g_string_append (out, "\n`weft COMMAND --help` explains a command and shows examples.\n");
  return g_string_free (out, FALSE);
}

gchar *
weft_command_help_entry (const WeftCommandEntry *entry)
{
  GString *out = g_string_new (NULL);

  g_string_append_printf (out, "Usage: weft %s [OPTION...] %s\n\n%s.\n", entry->name, entry->arguments,
                          entry->summary);
  append_paragraphs (out, entry->description);
  g_string_append (out, "\nOptions:\n");
  append_options (out, entry->options);
  append_options (out, weft_command_common_options);
  g_string_append (out, "\nExamples:\n");
  for (const WeftCommandExample *example = entry->examples; example->line != NULL; example++)
    g_string_append_printf (out, "  # %s\n  %s\n", example->task, example->line);
  append_exit_codes (out, entry);
  return g_string_free (out, FALSE);
}

/* Text as troff: a backslash, a hyphen and a leading dot or quote mean something there. */
static gchar *
escape_troff (const gchar *text)
{
  GString *out = g_string_new (NULL);

  for (const gchar *c = text; *c != '\0'; c++)
    {
      gboolean is_line_start = c == text || c[-1] == '\n';

      if (*c == '\\')
        g_string_append (out, "\\e");
      else if (*c == '-')
        g_string_append (out, "\\-");
      else if (is_line_start && (*c == '.' || *c == '\''))
        g_string_append_printf (out, "\\&%c", *c);
      else
        g_string_append_c (out, *c);
    }
  return g_string_free (out, FALSE);
}

static void
append_troff (GString *out, const gchar *format, const gchar *text)
{
  g_autofree gchar *escaped = escape_troff (text);
  g_auto (GStrv) around = g_strsplit (format, "@", 2);

  g_string_append_printf (out, "%s%s%s", around[0], escaped, around[1]);
}

static void
append_man_options (GString *out, const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_autofree gchar *synopsis = option_synopsis (option);

      if (is_hidden (option))
        continue;
      append_troff (out, ".TP\n.B @\n", synopsis);
      append_troff (out, "@\n", option->description);
    }
}

static void
append_man_entry (GString *out, const WeftCommandEntry *entry)
{
  g_auto (GStrv) paragraphs = g_strsplit (entry->description, "\n\n", -1);

  append_troff (out, ".SS weft @", entry->name);
  append_troff (out, " @\n", entry->arguments);
  append_troff (out, "@.\n", entry->summary);
  for (guint i = 0; paragraphs[i] != NULL; i++)
    append_troff (out, ".PP\n@\n", paragraphs[i]);
  append_man_options (out, entry->options);
  for (const WeftCommandExample *example = entry->examples; example->line != NULL; example++)
    {
      append_troff (out, ".PP\n@:\n", example->task);
      append_troff (out, ".PP\n.RS\n.EX\n@\n.EE\n.RE\n", example->line);
    }
  if (entry->differs != NULL)
    append_troff (out, ".PP\nExit code 3: @.\n", entry->differs);
}

static gchar *
help_man (void)
{
  GString *out = g_string_new (NULL);

  g_string_append (
      out, ".TH WEFT 1 \"\" \"weft " WEFT_VERSION "\" \"User Commands\"\n"
           ".SH NAME\nweft \\- takes checkpoints into runtime layouts and back\n"
           ".SH SYNOPSIS\n.B weft\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n"
           ".SH DESCRIPTION\n"
           "Takes a safetensors checkpoint, as it was published, into the layout that a runtime wants "
           "(experts stacked, projections fused, prefixes renamed), and takes it back byte for byte.\n"
           ".SH OPTIONS\nEvery command has these.\n");
  append_man_options (out, weft_command_common_options);
  g_string_append (out, ".SH COMMANDS\n");
  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    append_man_entry (out, weft_command_entries[i]);
  g_string_append (out, ".SH EXIT STATUS\n");
  for (guint i = 0; i < G_N_ELEMENTS (exit_codes); i++)
    {
      g_string_append_printf (out, ".TP\n.B %u\n", exit_codes[i].code);
      append_troff (out, "@\n", exit_codes[i].meaning);
    }
  return g_string_free (out, FALSE);
}

static gchar *
help_markdown (void)
{
  GString *out = g_string_new ("Title: The command weft\n\n# The command weft\n");

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      g_autofree gchar *help = weft_command_help_entry (weft_command_entries[i]);

      g_string_append_printf (out, "\n## weft %s\n\n```\n%s```\n", weft_command_entries[i]->name, help);
    }
  return g_string_free (out, FALSE);
}

static void
append_option_words (GString *out, const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      if (is_hidden (option))
        continue;
      g_string_append_printf (out, " --%s", option->long_name);
      if (option->short_name != 0)
        g_string_append_printf (out, " -%c", option->short_name);
    }
}

static gchar *
help_bash (void)
{
  GString *out = g_string_new ("# bash completion of weft, made from its option tables\n_weft ()\n{\n"
                               "  local word=${COMP_WORDS[COMP_CWORD]} options=\"--help --version\"\n"
                               "  case ${COMP_CWORD:-0}:${COMP_WORDS[1]-} in\n    1:*) options+=\"");

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    g_string_append_printf (out, " %s", weft_command_entries[i]->name);
  g_string_append (out, "\" ;;\n");
  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      g_string_append_printf (out, "    *:%s) options=\"", weft_command_entries[i]->name);
      append_option_words (out, weft_command_entries[i]->options);
      append_option_words (out, weft_command_common_options);
      g_string_append (out, "\" ;;\n");
    }
  g_string_append (out, "  esac\n  if [[ $COMP_CWORD -eq 1 || $word == -* ]]; then\n"
                        "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
                        "  else\n    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n  fi\n}\n"
                        "complete -o filenames -F _weft weft weft-python weft-gjs\n");
  return g_string_free (out, FALSE);
}

/* Text inside single quotes of a shell. */
static void
append_quoted (GString *out, const gchar *text)
{
  g_autofree gchar *quoted = g_shell_quote (text);

  g_string_append (out, quoted);
}

static void
append_zsh_options (GString *out, const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_autofree gchar *spec = NULL;
      g_auto (GStrv) parts = NULL;
      g_autofree gchar *description = NULL;

      if (is_hidden (option))
        continue;
      parts = g_strsplit_set (option->description, "[]:", -1);
      description = g_strjoinv (" ", parts);
      spec = g_strdup_printf ("--%s%s[%s]%s", option->long_name, option->arg_description != NULL ? "=" : "",
                              description, option->arg_description != NULL ? ":value:_files" : "");
      g_string_append (out, " ");
      append_quoted (out, spec);
    }
}

static gchar *
help_zsh (void)
{
  GString *out = g_string_new ("#compdef weft weft-python weft-gjs\n# made from the option tables of weft\n"
                               "if (( CURRENT == 2 )); then\n  local -a commands=(");

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      g_autofree gchar *pair =
          g_strdup_printf ("%s:%s", weft_command_entries[i]->name, weft_command_entries[i]->summary);

      g_string_append (out, " ");
      append_quoted (out, pair);
    }
  g_string_append (out, ")\n  _describe command commands\n  return\nfi\n"
                        "local command=$words[2]\nshift words\n(( CURRENT-- ))\ncase $command in\n");
  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      g_string_append_printf (out, "  %s) _arguments", weft_command_entries[i]->name);
      append_zsh_options (out, weft_command_entries[i]->options);
      append_zsh_options (out, weft_command_common_options);
      g_string_append (out, " '*:file:_files' ;;\n");
    }
  g_string_append (out, "esac\n");
  return g_string_free (out, FALSE);
}

static void
append_fish_options (GString *out, const gchar *command, const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      if (is_hidden (option))
        continue;
      g_string_append_printf (out, "complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", command,
                              option->long_name);
      if (option->short_name != 0)
        g_string_append_printf (out, " -s %c", option->short_name);
      if (option->arg_description != NULL)
        g_string_append (out, " -r");
      g_string_append (out, " -d ");
      append_quoted (out, option->description);
      g_string_append_c (out, '\n');
    }
}

static gchar *
help_fish (void)
{
  GString *out = g_string_new ("# fish completion of weft, made from its option tables\n");

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      g_string_append_printf (out, "complete -c weft -n __fish_use_subcommand -a %s -d ",
                              weft_command_entries[i]->name);
      append_quoted (out, weft_command_entries[i]->summary);
      g_string_append_c (out, '\n');
      append_fish_options (out, weft_command_entries[i]->name, weft_command_entries[i]->options);
      append_fish_options (out, weft_command_entries[i]->name, weft_command_common_options);
    }
  return g_string_free (out, FALSE);
}

gchar *
weft_command_help_format (const gchar *format)
{
  static const struct
  {
    const gchar *format;
    gchar *(*make) (void);
  } makers[] = {
    { "man", help_man }, { "markdown", help_markdown }, { "bash", help_bash },
    { "zsh", help_zsh }, { "fish", help_fish },
  };

  for (guint i = 0; i < G_N_ELEMENTS (makers); i++)
    if (g_strcmp0 (format, makers[i].format) == 0)
      return makers[i].make ();
  return NULL;
}
