import Foundation
import Testing

@testable import Convoy

@Suite struct ResumeRecordTests {
    private func record(
        _ change: (inout ResumeRecord) -> Void = { _ in }
    ) -> ResumeRecord {
        var record = ResumeRecord(key: "k", validator: .entityTag("\"v\""), totalBytes: 1_000, boot: "b")
        change(&record)
        return record
    }

    @Test func aRecordIsReadBack() {
        let full = record {
            $0.syncedBytes = 5
            ($0.name, $0.needsDigest) = ("ü", true)
            ($0.ranges, $0.syncedRanges) = ([0..<5, 7..<9], [0..<5])
        }
        #expect(ResumeRecord(full.data) == full)
        #expect(ResumeRecord(record().data) == record())
        for validator in [.entityTag("\"\""), .lastModified("Sunday, 06-Nov-94 08:49:37 GMT")] as [Validator] {
            #expect(ResumeRecord(record { $0.validator = validator }.data)?.validator == validator)
        }
    }

    /// Earlier versions of Convoy stored the state of a digest in the record.
    @Test func recordWithTheStateOfADigestIsRead() throws {
        let record = record { $0.syncedBytes = 5 }
        let body = String(decoding: record.data.dropFirst(ResumeRecord.heading.utf8.count + 65), as: UTF8.self)
        let old = Data((#"{"digest":{"algorithm":"sha256","state":"Q3ZTMjU2MQ=="},"# + body.dropFirst()).utf8)
        let data = Data((ResumeRecord.heading + old.sha256.hexadecimal + "\n").utf8) + old
        #expect(ResumeRecord(data) == record)
    }

    @Test func aCutOrDamagedRecordIsNil() {
        let data = record().data
        for count in data.indices { #expect(ResumeRecord(data.prefix(count)) == nil) }
        for index in data.indices {
            var damaged = data
            damaged[index] ^= 1
            #expect(ResumeRecord(damaged) == nil)
        }
        #expect(ResumeRecord(data + [0x20]) == nil)
    }

    /// The record may have been written by another program, so its names are checked.
    @Test(arguments: ["../evil", "/etc/passwd", "a/b", "..", ".", "", ".hidden", "a\u{0}b", "a\nb", "b/"])
    func aRecordWithAnImpossibleNameIsNil(name: String) {
        #expect(ResumeRecord(record { $0.name = name }.data) == nil)
        #expect(ResumeRecord(record { $0.name = "a b.txt" }.data) != nil)
    }

    @Test(
        arguments: [
            .entityTag("\"v\"\r\nX-Inject: yes"), .entityTag("*"), .entityTag("W/\"v\""), .entityTag(""),
            .entityTag("v"),
            .lastModified("Sat, 21 Nov 2026 10:00:00 GMT\r\nX-Inject: yes"), .lastModified("yesterday"),
            .lastModified(""),
            .lastModified("Sat, 21 Nov 2026 10:00:00 GMT\n"),
        ] as [Validator])
    func aRecordWithAnInvalidValidatorIsNil(validator: Validator) {
        #expect(ResumeRecord(record { $0.validator = validator }.data) == nil)
    }

    /// After a reboot, only synchronised bytes are usable.
    @Test(
        arguments: [
            (700, "b", [0..<700]), (1_000, "b", [0..<1_000]), (700, "other", [0..<400]), (700, nil, [0..<400]),
            (399, "b", []), (1_001, "b", []),
        ] as [(Int64, String?, [Range<Int64>])])
    func partCountsAsFarAsItIsLongAndStored(length: Int64, boot: String?, ranges: [Range<Int64>]) {
        #expect(record { $0.syncedBytes = 400 }.usableRanges(ofPart: length, boot: boot) == ranges)
    }

    @Test func anInvalidRecordHasNoUsableRanges() {
        #expect(record().usableRanges(ofPart: 700, boot: nil) == [])
        #expect(record().usableRanges(ofPart: 0, boot: "b") == [])
        #expect(record { $0.syncedBytes = -1 }.usableRanges(ofPart: 9, boot: nil) == [])
        #expect(record { $0.totalBytes = -1 }.usableRanges(ofPart: 9, boot: "b") == [])
        for ranges in [[5..<9, 0..<3], [0..<5, 4..<9], [-5 ..< -1]] as [[Range<Int64>]] {
            #expect(record { $0.ranges = ranges }.usableRanges(ofPart: 1_000, boot: "b") == [])
        }
    }

    @Test(
        arguments: [
            (1_000, "b", [0..<100, 300..<400]), (350, "b", [0..<100, 300..<350]), (60, "b", [0..<60]),
            (1_000, nil, [0..<50]),
        ] as [(Int64, String?, [Range<Int64>])])
    func rangesCountAsFarAsThePartIsLong(length: Int64, boot: String?, ranges: [Range<Int64>]) {
        let record = record { ($0.ranges, $0.syncedRanges) = ([0..<100, 300..<400], [0..<50]) }
        #expect(record.usableRanges(ofPart: length, boot: boot) == ranges)
    }
}
