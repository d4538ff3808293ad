import Testing

@testable import Convoy

/// The states and arrows of a diagram, read from the attributes of its SVG elements.
private struct Diagram {
    /// An arrow from a state to another.
    struct Arrow: Hashable, Comparable, CustomStringConvertible {
        let from: String
        let to: String
        var description: String { "\(from) > \(to)" }
        static func < (left: Arrow, right: Arrow) -> Bool { left.description < right.description }
    }

    let states: Set<String>
    let arrows: Set<Arrow>

    /// - Parameter text: the picture as SVG.
    init(_ text: String) {
        states = Set(text.matches(of: #/data-state="(\w+)"/#).map { String($0.1) })
        arrows = Set(
            text.matches(of: #/data-from="(\w+)" data-to="(\w+)"/#).map {
                Arrow(from: String($0.1), to: String($0.2))
            })
    }
}

/// Compares the diagrams of the pages, drawn by `.ci/diagrams`, with the code.
@Suite struct DiagramTests {
    /// Classifies each status code with and without a partial file, and with each `Content-Range`.
    @Test func theArrowsOfADownloadAreThoseOfItsAnswers() {
        func part(of total: Int64?) -> ResumePoint? {
            ResumePoint(byteCount: 5, validator: nil, totalBytes: total, coding: nil)
        }
        let ranges = [nil, "bytes 5-9/10", "bytes 0-4/10", "bytes */5", "bytes */10"]
        var answers: Set<DownloadAnswer> = []
        var arrows: Set<Diagram.Arrow> = []
        func name(_ answer: DownloadAnswer) -> String { String("\(answer)".prefix { $0 != "(" }) }
        for status in [200, 204, 206, 304, 404, 416, 503] {
            for range in ranges {
                for point in [nil, part(of: 10), part(of: nil)] {
                    var head = ResponseHead(statusCode: status)
                    head.headerFields["Content-Range"] = range
                    let isRefused = !(200..<300).contains(status) && status != 304
                    let answer = DownloadAnswer(head, continuing: point, asksForRange: false, isRefused: isRefused)
                    answers.insert(answer)
                    arrows.insert(.init(from: point == nil ? "nothing" : "part", to: name(answer)))
                }
            }
        }
        for answer in answers {
            switch answer {
            case .body, .isWhole, .isUnchanged: arrows.insert(.init(from: name(answer), to: "file"))
            case .mismatch: arrows.insert(.init(from: name(answer), to: "nothing"))
            case .refused: break
            }
        }
        // If a body is interrupted, its bytes stay in the part.
        arrows.insert(.init(from: "body", to: "part"))
        let diagram = Diagram(LibrarySources.text("Sources/Convoy/Convoy.docc/Resources/download.svg"))
        #expect(diagram.states == Set(answers.map(name)).union(["nothing", "part", "file"]))
        #expect(diagram.arrows.symmetricDifference(arrows).sorted() == [])
    }
}
