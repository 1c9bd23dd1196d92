// Package testkit is what the tests of several packages have in common, and only tests import it. It says how long to
// wait, what a test needs and when a test is left out, and makes real processes to test with.
//
// A test that needs something of the machine says so with Need, and is skipped where that is missing. A test that takes
// long says so with Long, and is left out of a short run (go test -short). make counts both.
//
// Real processes are made by executing the test binary again in a role. A role is registered beside the tests that use it.
package testkit
