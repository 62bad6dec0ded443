/* SPDX-License-Identifier: Apache-2.0
 *
 * The override file, line by line, in place.
 */
#include "policy/override.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "policy/config.h"

static const char blanks[] = " \t";

struct parser {
	struct berth_override *override;
	struct berth_reason *reason;
	uint32_t line;
};

static int refuse(const struct parser *parser, const char *what)
{
	return berth_reason_set(parser->reason, -EINVAL, "%s, line %u: %s", parser->override->path,
				parser->line, what);
}

/* Blanks off both ends, in place. */
static char *trim(char *text)
{
	size_t length;

	text += strspn(text, blanks);
	length = strlen(text);
	while (length > 0 && strchr(blanks, text[length - 1]) != NULL)
		length--;
	text[length] = '\0';
	return text;
}

static bool has_control(const char *text)
{
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return true;
	}
	return false;
}

static bool name_valid(const char *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";

	return name[0] != '\0' && name[strspn(name, allowed)] == '\0';
}

/* The text between a pair of quotes; NULL if one lacks its partner. */
static char *unquote(char *value)
{
	char quote = value[0];
	char *end;

	if (quote != '"' && quote != '\'')
		return value;
	end = strchr(value + 1, quote);
	if (end == NULL || end[1] != '\0')
		return NULL;
	*end = '\0';
	return value + 1;
}

static int entry_add(const struct parser *parser, const char *name, const char *value)
{
	struct berth_override *override = parser->override;
	const struct berth_override_entry *before = berth_override_find(override, name);

	if (before != NULL && strcmp(before->value, value) != 0)
		return berth_reason_set(parser->reason, -EINVAL,
					"%s, line %u: %s has another value than in line %u",
					override->path, parser->line, name, before->line);
	if (before != NULL)
		return 0;
	if (override->count == BERTH_OVERRIDE_ENTRY_MAX)
		return berth_reason_set(parser->reason, -E2BIG, "%s, line %u: too many variables",
					override->path, parser->line);
	override->entries[override->count++] =
		(struct berth_override_entry){ name, value, parser->line };
	return 0;
}

static int assignment_parse(const struct parser *parser, char *name, char *value)
{
	if (strncmp(name, "export", 6) == 0 && name[6] != '\0' && strchr(blanks, name[6]) != NULL)
		name += 6;
	name = trim(name);
	if (!name_valid(name))
		return refuse(parser, "this is no variable's name; give NAME=VALUE");
	switch (berth_config_word(name)) {
	case BERTH_CONFIG_FOREIGN:
		return 0;
	case BERTH_CONFIG_LOOKALIKE:
		return berth_reason_set(parser->reason, -EINVAL,
					"%s, line %u: no limit goes by the name %.60s; berth(7) "
					"lists them",
					parser->override->path, parser->line, name);
	case BERTH_CONFIG_VARIABLE:
		break;
	}
	value = unquote(trim(value));
	if (value == NULL)
		return refuse(parser, "a quote without its partner at the end of the line");
	return entry_add(parser, name, value);
}

static int line_parse(const struct parser *parser, char *line, size_t length)
{
	char *equals;

	if (strlen(line) != length)
		return refuse(parser, "a NUL byte");
	if (length > 0 && line[length - 1] == '\r')
		line[length - 1] = '\0';
	if (has_control(line))
		return refuse(parser, "a control character");
	line = trim(line);
	if (line[0] == '\0' || line[0] == '#')
		return 0;
	equals = strchr(line, '=');
	if (equals == NULL)
		return refuse(parser, "not NAME=VALUE");
	*equals = '\0';
	return assignment_parse(parser, line, equals + 1);
}

int berth_override_parse(const char *path, char *text, size_t size,
			 struct berth_override *ret_override, struct berth_reason *reason)
{
	struct berth_override override = { .path = path };
	struct parser parser = { .override = &override, .reason = reason };
	char *end = text + size;
	int err = 0;

	while (err == 0 && text < end) {
		char *newline = memchr(text, '\n', (size_t)(end - text));

		parser.line++;
		if (newline == NULL)
			return refuse(&parser, "no newline at its end: was the file cut short?");
		*newline = '\0';
		err = line_parse(&parser, text, (size_t)(newline - text));
		text = newline + 1;
	}
	if (err == 0)
		*ret_override = override;
	return err;
}

const struct berth_override_entry *berth_override_find(const struct berth_override *override,
						       const char *name)
{
	for (uint32_t i = 0; override != NULL && i < override->count; i++) {
		if (strcmp(override->entries[i].name, name) == 0)
			return &override->entries[i];
	}
	return NULL;
}
