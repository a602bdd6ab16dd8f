// The target that owns the precompiled headers of the tests. It must be linked in the same way as the tests.
int main() { return 0; }
