// The command `convoy`.
import Foundation

// Here, where there is one thread yet.
let arguments = Array(CommandLine.arguments.dropFirst())
DatabaseAddress.hide(in: CommandLine.unsafeArgv, CommandLine.argc)
let invocation = Tool.prepare(arguments, within: ProcessLimits.prepare())
// What ends here never meets the runtime's threads and descriptors, which it cannot be without.
if case .ended(let status) = invocation { _exit(status.code) }
let status = await Tool.run(invocation)
// Not `exit`: OpenSSL's own clean-up races with the loader's threads there and can crash. Nothing is buffered.
_exit(status.code)
