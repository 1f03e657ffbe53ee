/* Calls a signature of a SavedModel through TensorFlow's C API. There is no Python in the process.
 *
 *     saved_model OPS FOLDER INPUT... -- OUTPUT... < lines > answers
 *
 * OPS are the libraries with the operations of tensorflow_text, with commas between them. INPUT and
 * OUTPUT are tensors of a signature, such as "serving_default_text:0" (as `saved_model_cli show --all
 * --dir=FOLDER` prints them). An input of strings has the lines; of several such inputs, each has a
 * column of the lines, which are separated by tabs. "NAME=i4" is an input of the integer 4 for each
 * line, "NAME=f0.6" one of a decimal. An answer has all values of the outputs for a line, separated
 * by tabs. If the environment has CALLS=N, it calls N times, and prints seconds on standard error:
 * those of loading, and of each call.
 */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"

enum { MOST = 16 }; /* Most inputs, and outputs. */

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(const TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) fail("TensorFlow", TF_Message(status));
}

/* Seconds since some moment. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

/* The tensor "operation:index" of a graph. */
static TF_Output named(TF_Graph* graph, char* name) {
  char* colon = strrchr(name, ':');
  TF_Output tensor = {NULL, 0};
  if (colon != NULL) {
    *colon = '\0';
    tensor.index = atoi(colon + 1);
    tensor.oper = TF_GraphOperationByName(graph, name);
  }
  if (tensor.oper == NULL) fail(name, "no tensor has this name");
  return tensor;
}

/* The lines of a file without their ends, each with its length. */
static int64_t read_lines(FILE* file, char*** lines, size_t** lengths) {
  char* line = NULL;
  size_t capacity = 0;
  ssize_t length;
  int64_t count = 0;
  while ((length = getline(&line, &capacity, file)) >= 0) {
    *lines = realloc(*lines, (count + 1) * sizeof **lines);
    *lengths = realloc(*lengths, (count + 1) * sizeof **lengths);
    (*lengths)[count] = line[length - 1] == '\n' ? length - 1 : length;
    (*lines)[count++] = line;
    line = NULL;
  }
  return count;
}

/* A vector of strings, a column of the lines; the last column goes to the end of its line. */
static TF_Tensor* strings_of(int64_t count, char** lines, const size_t* lengths, int column,
                             int is_last) {
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, &count, 1, count * sizeof(TF_TString));
  TF_TString* strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    const char *start = lines[i], *end = lines[i] + lengths[i];
    for (int skipped = 0; skipped < column; skipped++) {
      const char* tab = memchr(start, '\t', end - start);
      if (tab == NULL) fail(lines[i], "too few columns");
      start = tab + 1;
    }
    const char* tab = is_last ? NULL : memchr(start, '\t', end - start);
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], start, (tab == NULL ? end : tab) - start);
  }
  return tensor;
}

/* A vector of equal numbers: "i4" are integers, "f0.6" decimals. */
static TF_Tensor* numbers_of(int64_t count, const char* text) {
  TF_DataType type = text[0] == 'i' ? TF_INT32 : TF_FLOAT;
  TF_Tensor* tensor = TF_AllocateTensor(type, &count, 1, count * 4);
  for (int64_t i = 0; i < count; i++) {
    if (type == TF_INT32) ((int32_t*)TF_TensorData(tensor))[i] = atoi(text + 1);
    if (type == TF_FLOAT) ((float*)TF_TensorData(tensor))[i] = strtof(text + 1, NULL);
  }
  return tensor;
}

/* Prints the values of a row. */
static void print_row(const TF_Tensor* tensor, int64_t row) {
  int64_t values = TF_TensorElementCount(tensor) / TF_Dim(tensor, 0);
  const void* data = TF_TensorData(tensor);
  for (int64_t i = row * values; i < (row + 1) * values; i++) {
    if (i > row * values) putchar('\t');
    if (TF_TensorType(tensor) == TF_FLOAT) printf("%.6f", ((const float*)data)[i]);
    if (TF_TensorType(tensor) == TF_INT32) printf("%d", ((const int32_t*)data)[i]);
    if (TF_TensorType(tensor) == TF_STRING) {
      const TF_TString* text = (const TF_TString*)data + i;
      fwrite(TF_StringGetDataPointer(text), 1, TF_StringGetSize(text), stdout);
    }
  }
}

int main(int argc, char** argv) {
  int separator = 3;
  while (separator < argc && strcmp(argv[separator], "--")) separator++;
  int num_inputs = separator - 3, num_outputs = argc - separator - 1;
  if (num_inputs < 1 || num_outputs < 1 || num_inputs > MOST || num_outputs > MOST) {
    fail("usage", "saved_model OPS FOLDER INPUT... -- OUTPUT... < lines > answers");
  }
  TF_Status* status = TF_NewStatus();
  for (char* library = strtok(argv[1], ","); library; library = strtok(NULL, ",")) {
    TF_LoadLibrary(library, status);
    check(status);
  }
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char *tags[] = {"serve"}, *calls = getenv("CALLS");
  double start = now();
  TF_Session* session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[2], tags, 1, graph, NULL, status);
  check(status);
  if (calls != NULL) fprintf(stderr, "loaded in %.3f s\n", now() - start);

  char** lines = NULL;
  size_t* lengths = NULL;
  int64_t count = read_lines(stdin, &lines, &lengths);
  TF_Output inputs[MOST], outputs[MOST];
  TF_Tensor *given[MOST], *found[MOST];
  int num_columns = 0, column = 0;
  for (int i = 0; i < num_inputs; i++) num_columns += strchr(argv[3 + i], '=') == NULL;
  for (int i = 0; i < num_inputs; i++) {
    char* value = strchr(argv[3 + i], '=');
    if (value != NULL) *value++ = '\0';
    inputs[i] = named(graph, argv[3 + i]);
    if (value != NULL) {
      given[i] = numbers_of(count, value);
    } else {
      given[i] = strings_of(count, lines, lengths, column, column + 1 == num_columns);
      column++;
    }
  }
  for (int i = 0; i < num_outputs; i++) outputs[i] = named(graph, argv[separator + 1 + i]);
  for (int call = calls == NULL ? 1 : atoi(calls); call > 0; call--) {
    start = now();
    TF_SessionRun(session, NULL, inputs, given, num_inputs, outputs, found, num_outputs, NULL, 0,
                  NULL, status);
    check(status);
    if (calls != NULL) fprintf(stderr, "answered in %.3f s\n", now() - start);
  }

  for (int64_t row = 0; row < count; row++) {
    for (int i = 0; i < num_outputs; i++) {
      if (i > 0) putchar('\t');
      print_row(found[i], row);
    }
    putchar('\n');
  }
  TF_CloseSession(session, status);
  check(status);
  return 0;
}
