/* UTF-8 after the table of well-formed sequences in the Unicode Standard, section 3.9 (table 3-7).
 */
#include "mutirao/base.h"

/* Length promised by a lead byte, and the range of the byte after it; length 0 for what cannot
 * lead. */
static int lead_length(unsigned char c, unsigned char *lo, unsigned char *hi) {
  *lo = 0x80;
  *hi = 0xBF;
  if (c < 0x80) return 1;
  if (c < 0xC2) return 0;
  if (c < 0xE0) return 2;
  if (c < 0xF0) {
    if (c == 0xE0) *lo = 0xA0;
    if (c == 0xED) *hi = 0x9F;
    return 3;
  }
  if (c > 0xF4) return 0;
  if (c == 0xF0) *lo = 0x90;
  if (c == 0xF4) *hi = 0x8F;
  return 4;
}

int mt_utf8_decode(const char *s, size_t n, uint32_t *cp) {
  const unsigned char *p = (const unsigned char *)s;
  unsigned char lo, hi;
  if (!n) return 0;
  int len = lead_length(p[0], &lo, &hi);
  if (len == 0) return -1;
  if (len == 1) {
    *cp = p[0];
    return 1;
  }
  uint32_t v = p[0] & (0x7Fu >> len);
  for (int i = 1; i < len; i++) {
    if ((size_t)i >= n) return 0;
    if (p[i] < lo || p[i] > hi) return -i;
    v = v << 6 | (p[i] & 0x3Fu);
    lo = 0x80;
    hi = 0xBF;
  }
  *cp = v;
  return len;
}

int mt_utf8_encode(uint32_t cp, char out[MT_UTF8_MAX]) {
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  if (cp < 0x800) {
    out[0] = (char)(0xC0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3F));
    return 2;
  }
  if (cp >= 0xD800 && cp < 0xE000) return 0;
  if (cp < 0x10000) {
    out[0] = (char)(0xE0 | cp >> 12);
    out[1] = (char)(0x80 | (cp >> 6 & 0x3F));
    out[2] = (char)(0x80 | (cp & 0x3F));
    return 3;
  }
  if (cp > 0x10FFFF) return 0;
  out[0] = (char)(0xF0 | cp >> 18);
  out[1] = (char)(0x80 | (cp >> 12 & 0x3F));
  out[2] = (char)(0x80 | (cp >> 6 & 0x3F));
  out[3] = (char)(0x80 | (cp & 0x3F));
  return 4;
}

bool mt_utf8_valid(const char *s, size_t n, size_t *bad) {
  for (size_t i = 0; i < n;) {
    uint32_t cp;
    int len = mt_utf8_decode(s + i, n - i, &cp);
    if (len <= 0) {
      if (bad) *bad = i;
      return false;
    }
    i += (size_t)len;
  }
  return true;
}

int mt_utf8_append_lossy(mt_buf *b, const char *s, size_t n) {
  size_t copied = 0, i = 0;
  while (i < n) {
    uint32_t cp;
    int len = mt_utf8_decode(s + i, n - i, &cp);
    if (len > 0) {
      i += (size_t)len;
      continue;
    }
    size_t skip = len < 0 ? (size_t)-len : n - i; /* cut off at the end: one part */
    if (mt_buf_append(b, s + copied, i - copied) || mt_buf_append(b, "\xEF\xBF\xBD", 3))
      return MT_ENOMEM;
    i += skip;
    copied = i;
  }
  return mt_buf_append(b, s + copied, n - copied);
}
