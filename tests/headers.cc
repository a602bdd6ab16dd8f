// The target of the precompiled headers of tests; they need one that is linked as tests are.
int main() { return 0; }
