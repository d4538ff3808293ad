// A test target that links this library runs at most four test cases for each processor at once. It calls no function.
#ifndef CONVOY_TEST_TURNS_H
#define CONVOY_TEST_TURNS_H
#endif
