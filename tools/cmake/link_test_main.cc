// Links a whole layer with its declared dependencies and nothing else; see TwinLayer.cmake.
int main() { return 0; }
