/* Ids to text that may be shown: the streaming decoder, then the watch for stop strings. */
#include <stdlib.h>
#include <string.h>

#include "mutirao/engine.h"

struct mt_answer {
  mt_stream *stream;
  mt_stop *stop;
  mt_buf piece;
};

int mt_answer_new(mt_answer **out, const mt_tokenizer *t, const char *const *stop, size_t n_stop,
                  mt_err *e) {
  mt_answer *a = *out = mt_calloc(1, sizeof *a);
  size_t *len = mt_malloc(n_stop, sizeof *len);
  int rc = a && len ? MT_OK : mt_err_set(e, MT_ENOMEM, "no memory for an answer");
  for (size_t i = 0; !rc && i < n_stop; i++) len[i] = strlen(stop[i]);
  if (!rc) rc = mt_stream_new(&a->stream, t, true, e);
  if (!rc) rc = mt_stop_new(&a->stop, stop, len, n_stop, e);
  free(len);
  if (rc) {
    mt_answer_free(a);
    *out = NULL;
  }
  return rc;
}

void mt_answer_free(mt_answer *a) {
  if (!a) return;
  mt_stream_free(a->stream);
  mt_stop_free(a->stop);
  mt_buf_free(&a->piece);
  free(a);
}

int mt_answer_push(mt_answer *a, uint32_t id, mt_buf *out, bool *stopped, mt_err *e) {
  mt_buf_clear(&a->piece);
  int rc = mt_stream_push(a->stream, id, &a->piece, e);
  if (!rc && mt_stop_push(a->stop, a->piece.data ? a->piece.data : "", a->piece.len, out))
    rc = mt_err_set(e, MT_ENOMEM, "no memory for the answer's text");
  *stopped = !rc && mt_stop_found(a->stop, NULL);
  return rc;
}

int mt_answer_finish(mt_answer *a, mt_buf *out, mt_err *e) {
  mt_buf_clear(&a->piece);
  int rc = mt_stream_finish(a->stream, &a->piece, e);
  if (!rc && (mt_stop_push(a->stop, a->piece.data ? a->piece.data : "", a->piece.len, out) ||
              mt_stop_flush(a->stop, out)))
    rc = mt_err_set(e, MT_ENOMEM, "no memory for the answer's text");
  mt_stop_reset(a->stop);
  return rc;
}
