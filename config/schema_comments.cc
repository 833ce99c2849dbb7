#include "config/schema_comments.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <sstream>
#include <string_view>

#include "config/embedded_files.h"
#include "core/check.h"

namespace twin {
namespace {

using google::protobuf::SourceLocation;

void AppendWords(const std::string& comment, std::string& line) {
  std::istringstream words(comment);
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
}

template <class Descriptor>
std::string CommentOf(const Descriptor* descriptor) {
  CHECK(descriptor != nullptr);
  SourceLocation location;
  std::string line;
  if (!descriptor->GetSourceLocation(&location)) return line;
  AppendWords(location.leading_comments, line);
  AppendWords(location.trailing_comments, line);
  return line;
}

}  // namespace

SchemaComments::SchemaComments() : pool_(std::make_unique<google::protobuf::DescriptorPool>()) {
  google::protobuf::FileDescriptorSet files;
  const std::string_view bytes = SchemaDescriptors().front().bytes;
  CHECK(files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  for (const google::protobuf::FileDescriptorProto& file : files.file()) {
    CHECK(pool_->BuildFile(file) != nullptr);
  }
}

SchemaComments::~SchemaComments() = default;

std::string SchemaComments::Of(const google::protobuf::Descriptor& message) const {
  return CommentOf(pool_->FindMessageTypeByName(message.full_name()));
}

std::string SchemaComments::Of(const google::protobuf::FieldDescriptor& field) const {
  return CommentOf(pool_->FindFieldByName(field.full_name()));
}

std::string SchemaComments::Of(const google::protobuf::EnumValueDescriptor& value) const {
  return CommentOf(pool_->FindEnumValueByName(value.full_name()));
}

}  // namespace twin
