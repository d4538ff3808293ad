// The command `convoy`.
import Foundation

// Here, where there is one thread yet.
let limits = ProcessLimits.prepare()
let status = await Tool.run(Array(CommandLine.arguments.dropFirst()), within: limits)
// Not `exit`: OpenSSL's own clean-up races with the loader's threads there and can crash. Nothing is buffered.
_exit(status.code)
