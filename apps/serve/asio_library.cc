// The code of Asio and Beast, which the other sources only declare: compiled once.
#include <utility>  // before Asio: Boost 1.74 misses it in C++20

#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
