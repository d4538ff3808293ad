// The command `convoy`.
import Foundation

let status = await Tool.run(Array(CommandLine.arguments.dropFirst()))
// Not `exit`: OpenSSL's own clean-up races with the loader's threads there and can crash. Nothing is buffered.
_exit(status.code)
