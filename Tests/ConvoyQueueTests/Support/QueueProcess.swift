// `QueueProgram` as a child process of a test.
import Foundation

extension ChildProcess {
    /// Starts `QueueProgram`.
    static func queue(_ arguments: [String], environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(program("QueueProgram"), arguments, environment: environment)
    }
}
