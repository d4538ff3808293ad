import Foundation
import Testing

@testable import ConvoyCommand

@Suite struct ShardTests {
    private func shard(_ text: String, _ environment: [String: String] = [:]) throws -> String {
        let shard = try Shard(text, environment: environment)
        return "\(shard.number)/\(shard.count)"
    }

    @Test func eachLineBelongsToOnePart() throws {
        let lines = (0..<20_000).map { "https://example.com/files/\($0).bin" }
        let counts = try (1...8).map { number in
            let shard = try #require(Shard(number: number, count: 8))
            return lines.count { shard.takes($0) }
        }
        #expect(counts.reduce(0, +) == lines.count)
        #expect(counts.allSatisfy { (2_200...2_800).contains($0) }, "\(counts)")
    }

    /// A part may run again with another version of `convoy`, or on another machine.
    @Test func aLineStaysWhereItIs() throws {
        #expect(Shard.hash("") == 0xEFD0_1F60_BA99_2926)
        let places = ["https://example.com/a", "https://example.com/b", "ü"].map { Shard.hash($0) % 1_000 }
        #expect(places == [816, 204, 105] as [UInt64])
    }

    @Test func partsAreReadAsTheyAreWritten() throws {
        #expect(try shard("1/1") == "1/1")
        #expect(try shard("8/8") == "8/8")
        for text in ["0/8", "9/8", "-1/8", "1/0", "1", "1/", "/8", "a/b", "1/2/3", "", "1/9999999999999999999999"] {
            expectMistake("I/N") { try Shard(text, environment: [:]) }
        }
    }

    /// The variables have the values that Slurm 22.05 and GNU parallel 20221122 set.
    @Test func schedulersSayWhichPartItIs() throws {
        func array(_ task: Int, _ min: Int, _ max: Int, _ count: Int, _ step: Int = 1) -> [String: String] {
            [
                "SLURM_ARRAY_TASK_ID": "\(task)", "SLURM_ARRAY_TASK_MIN": "\(min)", "SLURM_ARRAY_TASK_MAX": "\(max)",
                "SLURM_ARRAY_TASK_COUNT": "\(count)", "SLURM_ARRAY_TASK_STEP": "\(step)", "SLURM_PROCID": "0",
            ]
        }
        #expect(try shard("auto", array(3, 1, 3, 3)) == "3/3")
        #expect(try shard("auto", array(4, 0, 6, 4, 2)) == "3/4")
        let tasks = ["SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"]
        #expect(try shard("auto", tasks) == "2/2")
        #expect(try shard("auto", array(2, 1, 3, 3).merging(tasks) { $1 }) == "4/6")
        #expect(try shard("auto/8", ["JOB_COMPLETION_INDEX": "0"]) == "1/8")
        #expect(try shard("auto/8", ["PARALLEL_SEQ": "8", "PARALLEL_JOBSLOT": "2"]) == "8/8")
    }

    @Test func anEnvironmentWithoutAPartIsRefused() {
        expectMistake("PARALLEL_SEQ are not set") { try Shard("auto", environment: [:]) }
        // The script of sbatch is one task, even if it starts further tasks.
        expectMistake("srun") { try Shard("auto", environment: ["SLURM_PROCID": "0", "SLURM_NTASKS": "2"]) }
        expectMistake("write auto/N") { try Shard("auto", environment: ["JOB_COMPLETION_INDEX": "3"]) }
        expectMistake("not one of 3 parts") { try Shard("auto/3", environment: ["JOB_COMPLETION_INDEX": "3"]) }
        let gap = [
            "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "5",
            "SLURM_ARRAY_TASK_COUNT": "2",
        ]
        expectMistake("scontrol requeue") { try Shard("auto", environment: gap) }
        let huge = ["PARALLEL_SEQ": "9223372036854775807"]
        expectMistake("PARALLEL_SEQ are not set") { try Shard("auto/8", environment: huge) }
    }
}

@Suite struct URLGlobTests {
    @Test(arguments: [
        ("http://h/a", ["http://h/a"]), ("http://h/{a,b}", ["http://h/a", "http://h/b"]),
        ("http://h/{a}", ["http://h/a"]), ("http://h/{a,}", ["http://h/a", "http://h/"]),
        ("http://h/[9-11]", ["http://h/9", "http://h/10", "http://h/11"]),
        ("http://h/[009-011:2]", ["http://h/009", "http://h/011"]),
        ("http://h/[a-c]", ["http://h/a", "http://h/b", "http://h/c"]),
        ("http://h/{a,b}[1-2]", ["http://h/a1", "http://h/a2", "http://h/b1", "http://h/b2"]),
        ("http://[::1]/a", ["http://[::1]/a"]), ("http://h/?page[size]=1", ["http://h/?page[size]=1"]),
        ("http://h/\\{a\\}", ["http://h/{a}"]), ("http://h/{a", ["http://h/{a"]),
    ])
    func aPatternMatchesSeveralURLs(pattern: String, urls: [String]) throws {
        #expect(try URLGlob(pattern).matches.map(\.url) == urls)
    }

    @Test(arguments: [
        ("#1.txt", "a.txt"), ("#2_#1", "07_a"), ("#3", "#3"), ("#", "#"), ("#0#x", "#0#x"), ("a#1#1", "aaa"),
    ])
    func aNameUsesTheValuesOfThePatterns(template: String, name: String) throws {
        let match = try #require(try URLGlob("http://h/{a,b}/[07-09]").matches.first)
        #expect(match.name(template) == name)
    }

    @Test(arguments: [
        ("[5-1]", "is not a range"), ("[1-5:0]", "is not a range"), ("[1-99999999999]", "more than a million"),
        ("[1-9999999999999999999]", "more than a million"), ("[1-9999][1-9999]", "more than a million"),
        ("[0-1000000]", "more than a million"),
    ])
    func aRefusedRangeIsNamed(pattern: String, words: String) {
        expectMistake([words]) { try URLGlob("http://h/" + pattern) }
    }
}
