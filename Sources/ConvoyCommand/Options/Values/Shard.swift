import Foundation

// Each line belongs to exactly one part.
// A hash of the line decides the part, so adding or removing lines does not move other lines.
struct Shard: Sendable, Equatable {
    let number: Int
    let count: Int

    private static let most = 1_000_000

    init?(number: Int, count: Int) {
        guard (1...Self.most).contains(count), (1...count).contains(number) else { return nil }
        (self.number, self.count) = (number, count)
    }

    init(_ text: String, environment: [String: String]) throws(UsageError) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2 || text == "auto" else { throw Self.refusal(text) }
        let count = parts.count == 2 ? Int(parts[1]) : nil
        if parts.count == 2, count == nil { throw Self.refusal(text) }
        if parts[0] == "auto" {
            self = try Self.found(in: environment, count: count)
            return
        }
        guard let number = Int(parts[0]), let count, let shard = Shard(number: number, count: count) else {
            throw Self.refusal(text)
        }
        self = shard
    }

    private static func refusal(_ text: String) -> UsageError {
        UsageError("takes I/N with I from 1 to N, auto or auto/N, not \(text.debugDescription)")
    }

    // Slurm tells the number of parts. Kubernetes and GNU parallel do not, so with them the user must give it.
    private static func found(
        in environment: [String: String], count: Int?
    ) throws(UsageError) -> Shard {
        func number(_ name: String) -> Int? {
            environment[name].flatMap { Int($0) }.flatMap { (0...1_000_000_000).contains($0) ? $0 : nil }
        }
        var shard = Shard(number: 1, count: 1)
        var names: [String] = []
        if let task = number("SLURM_ARRAY_TASK_ID"), let first = number("SLURM_ARRAY_TASK_MIN"),
            let last = number("SLURM_ARRAY_TASK_MAX"), let tasks = number("SLURM_ARRAY_TASK_COUNT")
        {
            let step = max(1, number("SLURM_ARRAY_TASK_STEP") ?? 1)
            guard (last - first) / step + 1 == tasks else {
                throw UsageError(
                    "auto: the array has \(tasks) tasks between \(first) and \(last), so some parts are missing; write I/N, or "
                        + "repeat tasks with scontrol requeue")
            }
            shard = Shard(number: (task - first) / step + 1, count: tasks)
            names.append("SLURM_ARRAY_TASK_ID")
        }
        // A script of sbatch is one task, although it may have SLURM_PROCID. Only an srun step has SLURM_STEP_ID.
        if environment["SLURM_STEP_ID"] != nil, let process = number("SLURM_PROCID"),
            let tasks = number("SLURM_STEP_NUM_TASKS"), let outer = shard, (1...most).contains(tasks)
        {
            shard = Shard(number: (outer.number - 1) * tasks + process + 1, count: outer.count * tasks)
            names.append("SLURM_PROCID")
        }
        if names.isEmpty {
            let index = number("JOB_COMPLETION_INDEX").map { $0 + 1 } ?? number("PARALLEL_SEQ")
            guard let index else {
                throw UsageError(
                    "auto: this is neither a Slurm array task nor an srun step, and JOB_COMPLETION_INDEX and PARALLEL_SEQ are not set"
                )
            }
            guard let count else {
                throw UsageError("auto: the number of parts is unknown; write auto/N")
            }
            names.append(environment["JOB_COMPLETION_INDEX"] == nil ? "PARALLEL_SEQ" : "JOB_COMPLETION_INDEX")
            shard = Shard(number: index, count: count)
        } else if let count, count != shard?.count {
            throw UsageError("auto/\(count): Slurm runs \(shard?.count ?? 0) tasks; write auto")
        }
        guard let shard else {
            throw UsageError(
                "auto: by \(names.joined(separator: " and ")) this is not one of \(count.map(String.init) ?? "the") parts"
            )
        }
        return shard
    }

    func takes(_ line: String) -> Bool { Self.hash(line) % UInt64(count) == UInt64(number - 1) }

    // FNV-1a with an additional mixing step, because the low bits of FNV-1a depend on too few input bits. The result
    // is the same on every machine and never changes.
    static func hash(_ text: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01B3 }
        hash = (hash ^ (hash >> 33)) &* 0xFF51_AFD7_ED55_8CCD
        hash = (hash ^ (hash >> 33)) &* 0xC4CE_B9FE_1A85_EC53
        return hash ^ (hash >> 33)
    }
}
