// A test target that links this library runs a few test cases at a time; there is nothing to call.
#ifndef CONVOY_TEST_TURNS_H
#define CONVOY_TEST_TURNS_H
#endif
