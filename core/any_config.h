// One config struct of a family, such as the parameters of some policy, as a value. Code that only
// passes it on does not include the structs.
#pragma once

#include <memory>
#include <typeinfo>
#include <utility>

#include "core/check.h"

namespace twin {

// Family::kMember<Config> says whether a struct belongs to the family; Family::Default() returns an
// AnyConfig. Copies are deep. A moved-from value may only be assigned to or destroyed.
template <class Family>
class AnyConfig {
 public:
  AnyConfig() : AnyConfig(Family::Default()) {}

  template <class Config>
  requires(Family::template kMember<Config>)  //
      AnyConfig(Config config)                // NOLINT(google-explicit-constructor)
      : held_(std::make_unique<Held<Config>>(std::move(config))) {}

  AnyConfig(const AnyConfig& other) : held_(other.held_->Clone()) {}
  AnyConfig(AnyConfig&&) noexcept = default;
  AnyConfig& operator=(AnyConfig other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  ~AnyConfig() = default;

  // The struct; null if it is of another type.
  template <class Config>
  [[nodiscard]] const Config* If() const {
    return held_->type() == typeid(Config) ? &static_cast<const Held<Config>&>(*held_).config
                                           : nullptr;
  }
  template <class Config>
  [[nodiscard]] Config* If() {
    return const_cast<Config*>(std::as_const(*this).template If<Config>());
  }

  // REQUIRES (CHECKed): the struct is a Config.
  template <class Config>
  [[nodiscard]] const Config& Get() const {
    const Config* const config = If<Config>();
    CHECK(config != nullptr);
    return *config;
  }
  template <class Config>
  [[nodiscard]] Config& Get() {
    return const_cast<Config&>(std::as_const(*this).template Get<Config>());
  }

  bool operator==(const AnyConfig& other) const {
    return held_->type() == other.held_->type() && held_->Equals(*other.held_);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    [[nodiscard]] virtual const std::type_info& type() const = 0;
    [[nodiscard]] virtual std::unique_ptr<Base> Clone() const = 0;
    // REQUIRES: `other` has the same type.
    [[nodiscard]] virtual bool Equals(const Base& other) const = 0;
  };

  template <class Config>
  struct Held final : Base {
    explicit Held(Config held) : config(std::move(held)) {}
    [[nodiscard]] const std::type_info& type() const override { return typeid(Config); }
    [[nodiscard]] std::unique_ptr<Base> Clone() const override {
      return std::make_unique<Held>(config);
    }
    [[nodiscard]] bool Equals(const Base& other) const override {
      return config == static_cast<const Held&>(other).config;
    }

    Config config;
  };

  std::unique_ptr<Base> held_;
};

// Returns visit(struct) of the struct that `config`, an AnyConfig, holds. REQUIRES (CHECKed): it is
// one of `Config, Others...`.
template <class Config, class... Others, class Any, class Visit>
auto VisitConfig(Any& config, Visit&& visit) {
  if constexpr (sizeof...(Others) == 0) {
    return visit(config.template Get<Config>());
  } else {
    if (auto* const held = config.template If<Config>()) return visit(*held);
    return VisitConfig<Others...>(config, visit);
  }
}

}  // namespace twin
