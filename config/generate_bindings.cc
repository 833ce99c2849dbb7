// Writes the conversions of the schemas' messages to and from structs (field_binding.h), as the
// options of options.proto describe them:
//
//   generate_bindings DESCRIPTORS FOLDER SCHEMA...
//
// DESCRIPTORS is a FileDescriptorSet that protoc wrote, with all imports. For each SCHEMA, such as
// `system`, FOLDER gets system.bind.h, which has Bind() for each struct and the words of each
// enumeration, and system.bind.cc, which instantiates Bind() for both directions.
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <cctype>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "config/options.pb.h"

namespace twin {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// LEAST_KV and least_kv become kLeastKv.
std::string ConstantOf(const EnumValueDescriptor& value) {
  const std::string& given = value.options().GetExtension(proto::cpp_constant);
  if (!given.empty()) return given;
  std::string constant = "k";
  bool starts = true;
  for (const char letter : value.name()) {
    if (letter != '_') {
      const auto code = static_cast<unsigned char>(letter);
      constant += static_cast<char>(starts ? std::toupper(code) : std::tolower(code));
    }
    starts = letter == '_';
  }
  return constant;
}

// The name without the package, as in ModelShape.DType.
template <class Type>
std::string NameIn(const Type& type) {
  return type.full_name().substr(type.file()->package().size() + 1);
}

// The struct with the words of an enumeration: ModelShapeDTypeWords.
std::string WordsOf(const EnumDescriptor& type) {
  std::string name;
  for (const char letter : NameIn(type)) {
    if (letter != '.') name += letter;
  }
  return name + "Words";
}

const std::string& StructOf(const Descriptor& message) {
  return message.options().GetExtension(proto::cpp_struct);
}

std::string MemberOf(const FieldDescriptor& field) {
  const std::string& given = field.options().GetExtension(proto::cpp).member();
  if (!given.empty()) return given;
  const std::string& part = field.containing_type()->options().GetExtension(proto::cpp_part);
  std::string name = field.name();
  if (field.file()->options().GetExtension(proto::cpp_durations) && name.ends_with("_s")) {
    name.resize(name.size() - 2);
  }
  return part.empty() ? name : part + "." + name;
}

// The call that binds a field.
std::string Row(const FieldDescriptor& field) {
  if (field.real_containing_oneof() != nullptr) {
    return fmt::format("fields.template Choice<{}>(\"{}\", config);",
                       StructOf(*field.message_type()), field.name());
  }
  std::string call = "Value";
  if (field.message_type() != nullptr) call = "Nested";
  if (field.enum_type() != nullptr) {
    call = fmt::format("template Enum<{}>", WordsOf(*field.enum_type()));
  }
  if (field.options().deprecated()) call = "Former";
  return fmt::format("fields.{}(\"{}\", config.{});", call, field.name(), MemberOf(field));
}

// Calls `visit` with each message and enumeration of a file or a message, the inner ones first.
template <class Scope, class Visit>
void VisitTypes(const Scope& scope, const Visit& visit) {
  for (int i = 0; i < scope.enum_type_count(); ++i) visit(*scope.enum_type(i));
  if constexpr (std::is_same_v<Scope, FileDescriptor>) {
    for (int i = 0; i < scope.message_type_count(); ++i) VisitTypes(*scope.message_type(i), visit);
  } else {
    for (int i = 0; i < scope.nested_type_count(); ++i) VisitTypes(*scope.nested_type(i), visit);
    visit(scope);
  }
}

void Declare(const EnumDescriptor& type, std::string& text) {
  std::string none;
  text += fmt::format(
      "\n// {}\nstruct {} {{\n  template <class E>\n"
      "  static constexpr EnumNames<E> kNames = {{\n",
      NameIn(type), WordsOf(type));
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor& value = *type.value(i);
    // The first name of a number is the current name, later ones are former names.
    if (type.FindValueByNumber(value.number()) != &value) continue;
    if (value.options().GetExtension(proto::cpp_none)) {
      none = fmt::format("  static constexpr const char* kNone = \"{}\";\n", value.name());
    } else {
      text += fmt::format("      {{\"{}\", E::{}}},\n", value.name(), ConstantOf(value));
    }
  }
  text += "  };\n" + none + "};\n";
}

constexpr const char* kArchives[] = {"FromMessage", "ToMessage"};

void Declare(const Descriptor& message, std::string& text) {
  const std::string& type = StructOf(message);
  if (type.empty()) return;
  std::string former;
  std::string rows;
  std::string by_hand;
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const proto::Binding& binding = field.options().GetExtension(proto::cpp);
    if (binding.by_hand()) by_hand = "  BindByHand(fields, config);\n";
    if (binding.by_hand() || binding.unbound()) continue;
    (field.options().deprecated() ? former : rows) += "  " + Row(field) + "\n";
  }
  const std::string body = former + rows + by_hand;
  text += fmt::format("\n// {}\ntemplate <class Archive>\n", NameIn(message));
  text += body.empty()
              ? fmt::format("void Bind(Archive& /*fields*/, {}& /*config*/) {{}}\n", type)
              : fmt::format("void Bind(Archive& fields, {}& config) {{\n{}}}\n", type, body);
  for (const char* const archive : kArchives) {
    text += fmt::format("extern template void Bind({}&, {}&);\n", archive, type);
  }
}

void Instantiate(const EnumDescriptor& /*type*/, std::string& /*text*/) {}

void Instantiate(const Descriptor& message, std::string& text) {
  if (StructOf(message).empty()) return;
  for (const char* const archive : kArchives) {
    text += fmt::format("template void Bind({}&, {}&);\n", archive, StructOf(message));
  }
}

std::string HeaderOf(const FileDescriptor& file) {
  std::string text = fmt::format(
      "// Binds structs to the messages of {}, from which generate_bindings wrote this file.\n"
      "#pragma once\n\n#include \"config/field_binding.h\"\n",
      file.name());
  for (const std::string& header : file.options().GetRepeatedExtension(proto::cpp_include)) {
    text += fmt::format("#include \"{}\"\n", header);
  }
  for (int i = 0; i < file.dependency_count(); ++i) {
    const std::string& import = file.dependency(i)->name();
    const bool bound = file.dependency(i)->options().ExtensionSize(proto::cpp_include) > 0;
    const std::string_view stem = std::string_view(import).substr(0, import.find('.'));
    if (bound) text += fmt::format("#include \"{}.bind.h\"\n", stem);
  }
  text += "\nnamespace twin {\n";
  VisitTypes(file, [&](const auto& type) { Declare(type, text); });
  return text + "\n}  // namespace twin\n";
}

std::string SourceOf(const FileDescriptor& file, const std::string& schema) {
  std::string text = fmt::format(
      "#include \"config/{}.bind.h\"\n\n#include \"config/hand_bindings.h\"\n\n"
      "namespace twin {{\n\n",
      schema);
  VisitTypes(file, [&](const auto& type) { Instantiate(type, text); });
  return text + "\n}  // namespace twin\n";
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text).flush()) throw std::runtime_error(path + ": cannot be written");
}

void Generate(const char* descriptors, const std::string& folder,
              std::span<const char* const> schemas) {
  google::protobuf::FileDescriptorSet files;
  std::ifstream input(descriptors, std::ios::binary);
  if (!files.ParseFromIstream(&input)) {
    throw std::runtime_error(std::string(descriptors) + ": holds no descriptors");
  }
  google::protobuf::DescriptorPool pool;
  for (const google::protobuf::FileDescriptorProto& file : files.file()) {
    if (pool.BuildFile(file) == nullptr) throw std::runtime_error(file.name() + ": is no schema");
  }
  for (const std::string schema : schemas) {
    const FileDescriptor* const file = pool.FindFileByName("config/" + schema + ".proto");
    if (file == nullptr) throw std::runtime_error(schema + ": is not among the descriptors");
    Write(folder + "/" + schema + ".bind.h", HeaderOf(*file));
    Write(folder + "/" + schema + ".bind.cc", SourceOf(*file, schema));
  }
}

}  // namespace
}  // namespace twin

int main(int argc, char** argv) {
  const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() < 4) {
    std::fputs("usage: generate_bindings DESCRIPTORS FOLDER SCHEMA...\n", stderr);
    return 2;
  }
  try {
    twin::Generate(arguments[1], arguments[2], arguments.subspan(3));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
