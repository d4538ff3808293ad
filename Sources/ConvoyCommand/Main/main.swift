import Foundation

// `hide` and `prepare` run while the process has only one thread.
let arguments = Tool.arguments(of: CommandLine.unsafeArgv, CommandLine.argc)
DatabaseAddress.hide(in: CommandLine.unsafeArgv, CommandLine.argc)
let invocation = Tool.prepare(arguments, within: ProcessLimits.prepare())
// Exits before `await` starts the concurrency runtime, which fails without threads and descriptors.
if case .ended(let status) = invocation { _exit(status.code) }
let status = await Tool.run(invocation)
// `exit` would run OpenSSL's clean-up, which races with transfer threads and can crash. No output is buffered.
_exit(status.code)
