/* Character properties and case mapping, from generated ranges. */
#include "unicode.h"

typedef struct flag_start { /* these flags hold from here up to the next start */
  uint32_t first, flags;
} flag_start;
typedef struct case_range { /* every step-th character from first to last moves by delta */
  uint32_t first, last;
  int32_t delta;
  uint32_t step;
} case_range;
typedef struct case_several {
  uint32_t cp, to[3];
} case_several;

#include "unicode_data.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

unsigned mt_uni_flags(uint32_t cp) {
  size_t lo = 0, hi = COUNT(flag_starts);
  while (hi - lo > 1) {
    size_t mid = lo + (hi - lo) / 2;
    if (cp >= flag_starts[mid].first)
      lo = mid;
    else
      hi = mid;
  }
  return flag_starts[lo].flags;
}

bool mt_uni_is_space(uint32_t cp) {
  if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x1f);
  return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
         cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool mt_uni_is_newline(uint32_t cp) {
  return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
         cp == 0x2029;
}

static const struct {
  const case_range *ranges;
  size_t n_ranges;
  const case_several *several;
  size_t n_several;
} maps[] = {
    [UNI_TO_UPPER] = {upper_ranges, COUNT(upper_ranges), upper_several, COUNT(upper_several)},
    [UNI_TO_LOWER] = {lower_ranges, COUNT(lower_ranges), lower_several, COUNT(lower_several)},
    [UNI_TO_TITLE] = {title_ranges, COUNT(title_ranges), title_several, COUNT(title_several)},
    [UNI_TO_FOLD] = {fold_ranges, COUNT(fold_ranges), fold_several, COUNT(fold_several)}};

int mt_uni_map_case(uint32_t cp, int how, uint32_t out[3]) {
  const case_range *r = maps[how].ranges;
  size_t lo = 0, hi = maps[how].n_ranges;
  out[0] = cp;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (cp > r[mid].last) {
      lo = mid + 1;
    } else if (cp < r[mid].first) {
      hi = mid;
    } else {
      if ((cp - r[mid].first) % r[mid].step == 0) out[0] = (uint32_t)((int64_t)cp + r[mid].delta);
      if (out[0] != cp) return 1;
      break;
    }
  }
  if (cp < 0x80) return 1;
  for (size_t i = 0; i < maps[how].n_several; i++) {
    const case_several *s = &maps[how].several[i];
    if (s->cp != cp) continue;
    int n = 0;
    while (n < 3 && s->to[n]) {
      out[n] = s->to[n];
      n++;
    }
    return n;
  }
  return 1;
}

uint32_t mt_uni_at(const char *s, size_t n, size_t i, size_t *next) {
  uint32_t cp = 0xFFFD;
  int len = mt_utf8_decode(s + i, n - i, &cp);
  *next = i + (len > 0 ? (size_t)len : 1);
  return cp;
}

size_t mt_uni_before(const char *s, size_t i) {
  do i--;
  while (i > 0 && ((unsigned char)s[i] & 0xC0) == 0x80);
  return i;
}

size_t mt_uni_skip_space(const char *s, size_t n, size_t i) {
  while (i < n) {
    size_t next;
    if (!mt_uni_is_space(mt_uni_at(s, n, i, &next))) break;
    i = next;
  }
  return i;
}

size_t mt_uni_trim_end(const char *s, size_t begin, size_t end) {
  while (end > begin) {
    size_t next, i = mt_uni_before(s, end);
    if (!mt_uni_is_space(mt_uni_at(s, end, i, &next))) break;
    end = i;
  }
  return end;
}
