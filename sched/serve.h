// The loop that simulation and reality share.
#pragma once

namespace twin {

class Engine;
class World;

// Tells the engine what happens and the world what to do, until nothing more happens.
// Throws what the engine or the world throws (InvariantViolation, device errors).
void Serve(Engine& engine, World& world);

}  // namespace twin
