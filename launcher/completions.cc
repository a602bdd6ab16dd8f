#include "launcher/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/core/host/message.h"
#include "weft/train/config/config_schema.h"

namespace weft {
namespace {

constexpr const char* kHelp = R"(usage: weft completions bash|zsh

Prints a script that makes the shell complete commands, options, keys of a config and their values:

  source <(weft completions bash)
  weft completions zsh > "${fpath[1]}/_weft"
)";

// All of these are names from the schema and its tables, which a shell reads without quotes.
struct Script {
  Words commands;                                     // "train", ...
  std::vector<std::pair<std::string, Words>> words;   // the arguments of each command
  std::vector<std::pair<std::string, Words>> values;  // the values of each "command:key="
};

void Add(const std::string& command, const std::vector<Completion>& completions, Script& script) {
  for (const Completion& c : completions) {
    script.words.back().second.push_back(c.name);
    if (!c.values.empty()) script.values.emplace_back(fmt::format("{}:{}", command, c.name), c.values);
  }
}

std::vector<Completion> ConfigCompletions() {
  Config config;
  std::vector<Option> options;
  for (const Field& field : Schema()) options.push_back({field, field.ref(config)});
  return CompletionsOf(options);
}

Script ScriptOf(std::span<const Command> commands) {
  Script script;
  for (const Command& c : commands) {
    script.commands.emplace_back(c.name);
    script.words.push_back({c.name, {"--help"}});
    if (c.completions) Add(c.name, c.completions(), script);
    if (c.takes != Command::kConfig) continue;
    if (c.on_ranks) Add(c.name, RankCompletions(), script);
    Add(c.name, ConfigCompletions(), script);
  }
  script.words.push_back({"help", script.commands});
  script.words.back().second.emplace_back("keys");
  script.words.push_back({"completions", {"bash", "zsh"}});
  for (const char* own : {"help", "version", "completions"}) script.commands.emplace_back(own);
  return script;
}

std::string Cases(const std::vector<std::pair<std::string, Words>>& rows, const char* format) {
  std::string text;
  for (const auto& [name, words] : rows)
    text += fmt::format("    {}) {} ;;\n", name, fmt::format(fmt::runtime(format), fmt::join(words, " ")));
  return text;
}

// bash splits words at "=", so only the part after the "=" is completed.
std::string BashScript(const Script& script) {
  return fmt::format(R"sh(# For bash: source <(weft completions bash)
_weft_words() {{
  case $1 in
{}  esac
}}
_weft_values() {{
  case $1 in
{}  esac
}}
_weft() {{
  local line=${{COMP_LINE:0:COMP_POINT}} command=${{COMP_WORDS[1]}}
  local word=${{line##*[[:space:]]}}
  if [ "$COMP_CWORD" -le 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "{}" -- "$word")
  elif [[ $word == *=* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_weft_values "$command:${{word%%=*}}=")" -- "${{word#*=}}")
    [ ${{#COMPREPLY[@]}} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "${{word#*=}}")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_weft_words "$command")" -- "$word" && compgen -f -- "$word")
    [[ ${{#COMPREPLY[@]}} -ne 1 || ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace
  fi
}}
complete -o filenames -F _weft weft
)sh",
                     Cases(script.words, "echo \"{}\""), Cases(script.values, "echo \"{}\""),
                     fmt::join(script.commands, " "));
}

std::string ZshScript(const Script& script) {
  return fmt::format(R"sh(#compdef weft
# For zsh: weft completions zsh > "${{fpath[1]}}/_weft"
_weft() {{
  local command=${{words[2]}} key=${{PREFIX%%=*}}=
  local -a found
  if (( CURRENT == 2 )); then
    compadd -- {}
    return
  fi
  if [[ $PREFIX == *=* ]]; then
    compset -P '*='
    case $command:$key in
{}    esac
    (( $#found )) && compadd -a found || _files
    return
  fi
  case $command in
{}  esac
  compadd -S '' -a found
  _files
}}
if [ "$funcstack[1]" = _weft ]; then _weft "$@"; else compdef _weft weft; fi
)sh",
                     fmt::join(script.commands, " "), Cases(script.values, "found=({})"),
                     Cases(script.words, "found=({})"));
}

}  // namespace

int CompletionsCommand(std::span<const Command> commands, const Words& words) {
  if (AsksForHelp(words)) {
    PrintStdout("{}", kHelp);
    return 0;
  }
  if (words.size() != 1 || (words[0] != "bash" && words[0] != "zsh")) {
    PrintStderr("weft completions: expected bash or zsh, got {}\n",
                words.empty() ? "nothing" : fmt::format("\"{}\"", fmt::join(words, " ")));
    return 2;
  }
  Script script = ScriptOf(commands);
  PrintStdout("{}", words[0] == "bash" ? BashScript(script) : ZshScript(script));
  return 0;
}

}  // namespace weft
