// The command `convoy`.
import Foundation

// Here, while there is only one thread.
let arguments = Array(CommandLine.arguments.dropFirst())
DatabaseAddress.hide(in: CommandLine.unsafeArgv, CommandLine.argc)
let invocation = Tool.prepare(arguments, within: ProcessLimits.prepare())
// An invocation that ends here does not start the runtime, which cannot run without threads and descriptors.
if case .ended(let status) = invocation { _exit(status.code) }
let status = await Tool.run(invocation)
// Not `exit`, because OpenSSL's clean-up races with the loader's threads there and can crash. Nothing is buffered.
_exit(status.code)
