import Foundation
import Testing

/// Tests the environment from which `convoy run` reads variables.
@Suite struct EnvironmentRunningTests {
    private func plan(_ environments: String, _ arguments: String...) async throws -> ConvoyProcess.Ending {
        let directory = try TemporaryDirectory()
        let file = directory.url.appending(path: "a.http")
        try Data("GET {{host}}/a?{{$dotenv X}}\n".utf8).write(to: file)
        try Data(environments.utf8).write(to: directory.url.appending(path: "http-client.env.json"))
        try Data("X=plain".utf8).write(to: directory.url.appending(path: ".env"))
        try Data("X=own".utf8).write(to: directory.url.appending(path: ".env.dev"))
        return try await ConvoyProcess(["run", "--dry-run", file.path] + arguments).ended()
    }

    @Test func theOnlyEnvironmentCounts() async throws {
        let ending = try await plan(#"{"$shared": {"a": "b"}, "dev": {"host": "http://one"}}"#)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.output.hasPrefix("1  GET http://one/a?"))
    }

    @Test func ofSeveralOneHasToBeGiven() async throws {
        let environments = #"{"dev": {"host": "http://one"}, "live": {"host": "http://two"}}"#
        let ending = try await plan(environments)
        #expect(ending.status == 2)
        #expect(ending.errors.contains("the variable ‘host’ has no value; give --env dev"))
        #expect(try await plan(environments, "--env", "live").output.hasPrefix("1  GET http://two/a?"))
    }
}
