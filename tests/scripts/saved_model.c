/* Translates lines with a SavedModel through TensorFlow's C API. There is no Python in the process.
 *
 *     saved_model OPS FOLDER TEXT SCORE TRANSLATION < lines > answers
 *
 * OPS is the library with the SentencePiece operations of tensorflow_text; TEXT, SCORE and
 * TRANSLATION are tensors of the signature `serving_default`, such as "serving_default_text:0" (as
 * `saved_model_cli show --all --dir=FOLDER` prints them). An answer is a score, a tab and a text.
 */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

static void check(const TF_Status* status) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s\n", TF_Message(status));
    exit(1);
  }
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
  if (tensor.oper == NULL) {
    fprintf(stderr, "%s: no tensor has this name\n", name);
    exit(1);
  }
  return tensor;
}

/* A vector of strings, the lines of a file without their ends. */
static TF_Tensor* read_lines(FILE* file) {
  char **lines = NULL, *line = NULL;
  size_t *lengths = NULL, capacity = 0;
  ssize_t length;
  int64_t count = 0;
  while ((length = getline(&line, &capacity, file)) >= 0) {
    lines = realloc(lines, (count + 1) * sizeof *lines);
    lengths = realloc(lengths, (count + 1) * sizeof *lengths);
    lengths[count] = line[length - 1] == '\n' ? length - 1 : length;
    lines[count++] = line;
    line = NULL;
  }
  TF_Tensor* tensor = TF_AllocateTensor(TF_STRING, &count, 1, count * sizeof(TF_TString));
  TF_TString* strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], lines[i], lengths[i]);
  }
  return tensor;
}

int main(int argc, char** argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: %s OPS FOLDER TEXT SCORE TRANSLATION < lines > answers\n", argv[0]);
    return 1;
  }
  TF_Status* status = TF_NewStatus();
  TF_LoadLibrary(argv[1], status);
  check(status);
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tags[] = {"serve"};
  TF_Session* session =
      TF_LoadSessionFromSavedModel(options, NULL, argv[2], tags, 1, graph, NULL, status);
  check(status);

  TF_Output text = named(graph, argv[3]);
  TF_Output asked[] = {named(graph, argv[4]), named(graph, argv[5])};
  TF_Tensor* lines = read_lines(stdin);
  TF_Tensor* found[2];
  TF_SessionRun(session, NULL, &text, &lines, 1, asked, found, 2, NULL, 0, NULL, status);
  check(status);

  const float* scores = TF_TensorData(found[0]);
  const TF_TString* translations = TF_TensorData(found[1]);
  for (int64_t i = 0; i < TF_Dim(found[1], 0); i++) {
    printf("%.6f\t", scores[i]);
    fwrite(TF_StringGetDataPointer(&translations[i]), 1, TF_StringGetSize(&translations[i]), stdout);
    putchar('\n');
  }
  TF_CloseSession(session, status);
  check(status);
  return 0;
}
