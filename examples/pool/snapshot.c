/*
 * examples/pool/snapshot.c: stores an array in a pool and reads it back.
 * usage: snapshot pool://host[:port]/namespace/object
 */
#include <stdio.h>
#include <string.h>
#include <tanada/pool.h>

static int failed(tnd_status status, const char *what) {
  if (status == TND_OK)
    return 0;
  fprintf(stderr, "snapshot: %s: %s (%s)\n", what, tnd_last_message(), tnd_status_name(status));
  return 1;
}

static int keep_and_read(tnd_pool *pool, const char *name) {
  static double field[1 << 20], back[1 << 20];
  for (int i = 0; i < 1 << 20; i++)
    field[i] = i * 0.5;
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.checksum_kind = TND_POOL_CHECKSUM_CRC32C;
  tnd_pool_object *object = NULL;
  if (failed(tnd_pool_create(pool, name, sizeof field, 0, NULL, &object), "create"))
    return 1;
  int bad = failed(tnd_pool_write(object, 0, field, sizeof field, TND_POOL_MEMORY_HOST), "write");
  if (!bad) /* from now on readers see the complete object */
    bad = failed(tnd_pool_commit(object, &options, NULL), "commit");
  tnd_pool_close(object);
  uint64_t size = 0;
  if (!bad)
    bad = failed(tnd_pool_get(pool, name, back, sizeof back, &size, TND_POOL_VERIFY), "get");
  if (!bad)
    printf("%llu bytes are %s\n",
           (unsigned long long)size,
           memcmp(field, back, sizeof field) == 0 ? "back" : "WRONG");
  return bad;
}

int main(int count, char **words) {
  const char *const name = count == 2 && strlen(words[1]) > 7 ? strchr(words[1] + 7, '/') : NULL;
  const char *const object = name != NULL ? strchr(name + 1, '/') : NULL;
  if (object == NULL || strncmp(words[1], "pool://", 7) != 0) {
    fprintf(stderr, "usage: snapshot pool://host[:port]/namespace/object\n");
    return 2;
  }
  tnd_pool *pool = NULL;
  if (failed(tnd_pool_connect(words[1], NULL, &pool), "connect"))
    return 1;
  int const bad = keep_and_read(pool, object + 1);
  tnd_pool_disconnect(pool);
  return bad;
}
