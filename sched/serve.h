// The serving loop, shared by simulated and real runs.
#pragma once

namespace twin {

class Cluster;
class Engine;
class World;

// Passes the world's events to the engine and the engine's plans to the world, until the world
// reports an instant without events. Throws what the engine or the world throws
// (InvariantViolation, device errors).
void Serve(Engine& engine, World& world);

// Runs a cluster instead of one engine.
void Serve(Cluster& cluster, World& world);

}  // namespace twin
