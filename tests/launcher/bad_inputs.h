// Bad inputs as tables: tests/launcher/bad_inputs/*.txt. A line is a verb and its text, in which \t, \n, \\ and \xHH
// stand for bytes; # begins a comment.
//
//   case KIND             begins a case: weft train a.yaml, in an empty folder with the text t.txt
//   yaml TEXT             a line of a.yaml, behind those of base.yaml
//   whole                 a.yaml without base.yaml
//   word TEXT             a word of the command line
//   config PATH           the word in the place of a.yaml; alone: none
//   ranks N               so many ranks
//   says TEXT             a line of what it must answer, exactly; {cwd} is the folder
//
// and what makes files, in this order:
//
//   file NAME TEXT        a file, without a newline at its end
//   folder NAME           an empty folder
//   link NAME TO          a symbolic link
//   shard NAME MAGIC VERSION TOKENS BYTES   a token shard's header and so many bytes of zeros
//   tensors NAME BYTES HEADER               a safetensors file with so many bytes of zeros
//   checkpoint NAME       a checkpoint of the base's model
//   weights NAME          the same as Hugging Face has it
//   cut NAME BYTES        takes bytes off the end
//   append NAME TEXT
//   replace NAME FROM|TO  the first FROM in a file
//   remove NAME
//   seal NAME             gives a manifest the checksum of what it now says
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace weft::testing_ {

struct BadInput {
  std::string place;  // "data.txt:12", of its table
  std::string kind, yaml, config = "a.yaml", says;
  std::vector<std::string> words;
  int ranks = 1;
  std::vector<std::pair<std::string, std::string>> files;  // verbs and their texts
};

std::vector<BadInput> ReadBadInputs(const std::string& tables);

// What cases copy: `checkpoint` and `weights` in this folder, of the model of the tables' base.yaml.
void MakeModels(const std::string& folder, const std::string& tables);

// Makes the case's files in the working directory.
void MakeFiles(const BadInput& input, const std::string& models);

// The words behind `weft train`, and the answer with its folders.
std::vector<std::string> WordsOf(const BadInput& input);
std::string AnswerOf(const BadInput& input);

}  // namespace weft::testing_
