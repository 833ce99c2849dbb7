#include "apps/serve/text/named_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/input_error.h"
#include "core/printable.h"

namespace twin::text {
namespace {

struct NamedSource {
  std::string_view name;
  std::string_view source;
};

constexpr std::string_view kChatMl =
    R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

// A system message opens the first user message, between <<SYS>> marks.
constexpr std::string_view kLlama2 =
    R"({%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{%- set ns.system = '<<SYS>>\n' + message.content + '\n<</SYS>>\n\n' %}
{%- elif message.role == 'user' %}
{{- bos_token + '[INST] ' + ns.system + message.content.strip() + ' [/INST]' }}
{%- set ns.system = '' %}
{%- elif message.role == 'assistant' %}
{{- ' ' + message.content.strip() + ' ' + eos_token }}
{%- else %}
{{- raise_exception('roles must be user and assistant, with a system message at the start') }}
{%- endif %}
{%- endfor %})";

constexpr std::string_view kLlama3 =
    R"({{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}
{{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})";

// As Mistral 7B Instruct v0.3: a system message opens the last message, if that is a user's.
constexpr std::string_view kMistral =
    R"({{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{%- set ns.system = message.content + '\n\n' %}
{%- elif message.role == 'user' %}
{{- '[INST] ' + (ns.system if loop.last else '') + message.content + '[/INST]' }}
{%- elif message.role == 'assistant' %}
{{- ' ' + message.content + eos_token }}
{%- else %}
{{- raise_exception('roles must be user and assistant, with a system message at the start') }}
{%- endif %}
{%- endfor %})";

constexpr std::string_view kGemma =
    R"({{- bos_token }}
{%- for message in messages %}
{%- if message.role not in ['user', 'assistant'] %}
{{- raise_exception('roles must be user and assistant; a system message is not supported') }}
{%- endif %}
{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else 'user') + '\n' }}
{{- message.content | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %})";

// As Phi-3.5.
constexpr std::string_view kPhi =
    R"({%- for message in messages %}
{%- if message.role != 'system' or message.content %}
{{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %})";

constexpr std::string_view kZephyr =
    R"({%- for message in messages %}
{{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %})";

constexpr std::string_view kVicuna =
    R"({%- for message in messages %}
{%- if message.role == 'system' and loop.first %}
{{- message.content + ' ' }}
{%- elif message.role == 'user' %}
{{- 'USER: ' + message.content + ' ' }}
{%- elif message.role == 'assistant' %}
{{- 'ASSISTANT: ' + message.content + eos_token }}
{%- else %}
{{- raise_exception('roles must be user and assistant, with a system message at the start') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %})";

constexpr std::array<NamedSource, 8> kTemplates = {{{"chatml", kChatMl},
                                                    {"gemma", kGemma},
                                                    {"llama2", kLlama2},
                                                    {"llama3", kLlama3},
                                                    {"mistral", kMistral},
                                                    {"phi", kPhi},
                                                    {"vicuna", kVicuna},
                                                    {"zephyr", kZephyr}}};

}  // namespace

std::string NamesOfTemplates() {
  std::string names;
  for (const auto& [name, unused] : kTemplates) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

std::string_view NamedTemplate(std::string_view name) {
  const auto* const found =
      std::find_if(kTemplates.begin(), kTemplates.end(),
                   [&](const NamedSource& source) { return source.name == name; });
  if (found == kTemplates.end()) {
    throw InputError(InputError::Kind::kUsage, "chat_template",
                     fmt::format("'{}' is no named template; allowed are {}", Printable(name),
                                 NamesOfTemplates()));
  }
  return found->source;
}

}  // namespace twin::text
