// Derived datatypes: a column of a matrix, a struct with holes, indexed blocks, a subarray; each
// sent as one and taken as other.
#include <stddef.h>

#include "check.h"

enum { SIDE = 300 };

struct particle {
  char kind;
  double place[3];
  int id;
};

static void column(int rank) {
  static int matrix[SIDE][SIDE];
  MPI_Datatype type;
  MPI_Type_vector(SIDE, 1, SIDE, MPI_INT, &type);
  MPI_Type_commit(&type);
  if (rank == 0) {
    for (int i = 0; i < SIDE; i++)
      matrix[i][7] = i * i;
    MPI_Send(&matrix[0][7], 1, type, 1, 1, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(matrix[3], SIDE, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < SIDE; i++)
      REQUIRE(matrix[3][i] == i * i);
  }
  MPI_Type_free(&type);
}

static void structure(int rank) {
  enum { COUNT = 5000 };
  static struct particle all[COUNT];
  int const lengths[] = {1, 3, 1};
  MPI_Aint const places[] = {offsetof(struct particle, kind),
                             offsetof(struct particle, place),
                             offsetof(struct particle, id)};
  MPI_Datatype const kinds[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
  MPI_Datatype plain, type;
  MPI_Type_create_struct(3, lengths, places, kinds, &plain);
  MPI_Type_create_resized(plain, 0, sizeof(struct particle), &type);
  MPI_Type_commit(&type);
  memset(all, 0x55, sizeof all);
  if (rank == 0) {
    for (int i = 0; i < COUNT; i++) {
      all[i].kind = (char)i;
      for (int axis = 0; axis < 3; axis++)
        all[i].place[axis] = i + axis * 0.25;
      all[i].id = -i;
    }
    MPI_Send(all, COUNT, type, 1, 2, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Status status;
    int got = 0;
    MPI_Recv(all, COUNT, type, 0, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &got);
    REQUIRE(got == COUNT);
    for (int i = 0; i < COUNT; i++) {
      REQUIRE(all[i].kind == (char)i && all[i].id == -i && all[i].place[2] == i + 0.5);
      REQUIRE(((unsigned char *)&all[i])[1] == 0x55);  // the hole
    }
  }
  MPI_Type_free(&plain);
  MPI_Type_free(&type);
}

static void indexed(int rank) {
  static int data[SIDE * SIDE];
  int lengths[SIDE], places[SIDE];
  int sum = 0;
  for (int i = 0; i < SIDE; i++) {
    lengths[i] = i % 5;
    places[i] = i * SIDE;
    sum += lengths[i];
  }
  MPI_Datatype type;
  MPI_Type_indexed(SIDE, lengths, places, MPI_INT, &type);
  MPI_Type_commit(&type);
  if (rank == 0) {
    for (int i = 0; i < sum; i++)
      data[i] = i + 1;
    MPI_Send(data, sum, MPI_INT, 1, 3, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(data, 1, type, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int next = 1;
    for (int i = 0; i < SIDE * SIDE; i++)
      REQUIRE(data[i] == (i % SIDE < (i / SIDE) % 5 ? next++ : 0));
  }
  MPI_Type_free(&type);
}

static void subarray(int rank) {
  static double grid[64][64][64];
  int const whole[] = {64, 64, 64}, part[] = {30, 20, 10}, at[] = {5, 6, 7};
  MPI_Datatype type;
  MPI_Type_create_subarray(3, whole, part, at, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  if (rank == 0) {
    for (int i = 0; i < 64 * 64 * 64; i++)
      (&grid[0][0][0])[i] = i;
    MPI_Send(grid, 1, type, 1, 4, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(grid, 1, type, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 64 * 64 * 64; i++) {
      int const z = i / 4096, y = i / 64 % 64, x = i % 64;
      int const inside = z >= 5 && z < 35 && y >= 6 && y < 26 && x >= 7 && x < 17;
      REQUIRE((&grid[0][0][0])[i] == (inside ? i : 0));
    }
  }
  MPI_Type_free(&type);
}

int main(int count, char **words) {
  MPI_Init(&count, &words);
  void (*const kinds[])(int) = {column, structure, indexed, subarray};
  for (int kind = 0; kind < 4; kind++) {
    kinds[kind](own_rank());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
}
