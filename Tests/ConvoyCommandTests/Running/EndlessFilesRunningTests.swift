import Testing

/// Runs the command with inputs that never end.
@Suite struct EndlessFilesRunningTests {
    /// The shell limits the memory of the command, so that a read without a limit fails instead of filling the machine.
    @Test(arguments: [
        (["run", "/dev/zero"], "cannot read /dev/zero: it is larger than 64 MiB"),
        (["-K", "/dev/zero", "http://127.0.0.1:9/"], "--config cannot read /dev/zero: it is larger than 1 MiB"),
    ])
    func aDeviceIsReadUpToALimit(arguments: [String], message: String) async throws {
        let ending = try await ConvoyProcess(shell: "ulimit -v 4000000; exec \"$0\" \"$@\"", arguments).ended()
        #expect(ending.status == 2 && !ending.isSignalled)
        #expect(ending.errors.contains(message), "\(ending.errors)")
    }
}
