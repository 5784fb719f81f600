// usage: unexpected COUNT SIZE. COUNT messages that nobody waits for yet, received in the reverse
// of their order: legal, as an MPI has to take in messages it has no receive for, however many.
#include "check.h"

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int const messages = count > 1 ? atoi(words[1]) : 66;
  size_t const size = count > 2 ? (size_t)atol(words[2]) : 64;
  if (own_rank() == 0) {
    // Not MPI_Send: a large one may wait for its receive.
    unsigned char *const all = allocate(size * (size_t)messages);
    MPI_Request *const requests = allocate(sizeof *requests * (size_t)messages);
    for (int tag = 0; tag < messages; tag++) {
      unsigned char *const data = all + size * (size_t)tag;
      fill(data, size, (unsigned)tag);
      MPI_Isend(data, (int)size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &requests[tag]);
    }
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    free(requests);
    free(all);
  } else if (own_rank() == 1) {
    unsigned char *const data = allocate(size);
    for (int tag = messages - 1; tag >= 0; tag--) {
      MPI_Status status;
      MPI_Recv(data, (int)size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status);
      REQUIRE(status.MPI_TAG == tag);
      require_pattern(data, size, (unsigned)tag);
    }
    free(data);
  }
  MPI_Finalize();
}
