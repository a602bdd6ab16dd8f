// Bad inputs as tables: tests/launcher/bad_inputs/*.txt. A line is a verb and its text, in which \t, \n, \\ and \xHH
// stand for bytes; # begins a comment.
//
//   case KIND             begins a case: weft train a.yaml, in an empty folder with the text t.txt
//   yaml TEXT             a line of a.yaml, after those of base.yaml
//   whole                 a.yaml without base.yaml
//   word TEXT             an argument of the command line
//   config PATH           the argument in the place of a.yaml; without PATH: none
//   ranks N               the number of ranks
//   says TEXT             a line of the expected answer, which must match exactly; {cwd} is the folder
//
// Verbs that make files, run in the order of their lines:
//
//   file NAME TEXT        a file, without a newline at its end
//   folder NAME           an empty folder
//   link NAME TO          a symbolic link
//   shard NAME MAGIC VERSION TOKENS BYTES   a token shard's header and BYTES bytes of zeros
//   tensors NAME BYTES HEADER               a safetensors file with BYTES bytes of zeros
//   checkpoint NAME       a checkpoint of the base's model
//   weights NAME          the same model in the layout of Hugging Face
//   cut NAME BYTES        removes bytes from the end
//   append NAME TEXT      appends text
//   replace NAME FROM|TO  replaces the first FROM in a file
//   remove NAME           removes a file
//   seal NAME             gives a manifest the checksum of its current text
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace weft::testing_ {

struct BadInput {
  std::string place;  // the case's line in its table, "data.txt:12"
  std::string kind, yaml, config = "a.yaml", says;
  std::vector<std::string> words;
  int ranks = 1;
  std::vector<std::pair<std::string, std::string>> files;  // verbs and their texts
};

std::vector<BadInput> ReadBadInputs(const std::string& tables);

// Makes `checkpoint` and `weights` in this folder, for cases to copy. Their model is that of the tables' base.yaml.
void MakeModels(const std::string& folder, const std::string& tables);

// Makes the case's files in the working directory.
void MakeFiles(const BadInput& input, const std::string& models);

// Returns the arguments after `weft train`, and the expected answer with its folders filled in.
std::vector<std::string> WordsOf(const BadInput& input);
std::string AnswerOf(const BadInput& input);

}  // namespace weft::testing_
