/* What Python's str methods know about characters. */
#ifndef CHAT_UNICODE_H
#define CHAT_UNICODE_H

#include "mutirao/base.h"

enum {
  UNI_ALPHA = 1,
  UNI_DECIMAL = 2,
  UNI_DIGIT = 4,
  UNI_NUMERIC = 8,
  UNI_PRINTABLE = 16,
  UNI_UPPER = 32,
  UNI_LOWER = 64,
  UNI_TITLE = 128,
  UNI_CASE_IGNORABLE = 256
};
unsigned mt_uni_flags(uint32_t cp);
bool mt_uni_is_space(uint32_t cp);   /* as str.isspace and str.strip */
bool mt_uni_is_newline(uint32_t cp); /* as str.splitlines */

enum { UNI_TO_UPPER, UNI_TO_LOWER, UNI_TO_TITLE, UNI_TO_FOLD };
/* Full case mapping of one character, up to three; returns how many. */
int mt_uni_map_case(uint32_t cp, int how, uint32_t out[3]);

/* The character at s[i]; *next is the offset after it. s is well-formed. */
uint32_t mt_uni_at(const char *s, size_t n, size_t i, size_t *next);
/* Offset of the character before offset i > 0. */
size_t mt_uni_before(const char *s, size_t i);
/* Offset of the first non-space from i on, and the end of the last non-space before end (>= begin).
 */
size_t mt_uni_skip_space(const char *s, size_t n, size_t i);
size_t mt_uni_trim_end(const char *s, size_t begin, size_t end);

#endif
