/// The declarations of a source, and the open type at each token.
struct SwiftDeclarations {
    struct TypeDeclaration {
        /// The full name with the enclosing types, such as `RequestManager.Configuration`.
        let name: String
        let line: Int
        /// The target of a type alias.
        var alias: [String]?
    }

    /// A member, or a function or variable outside of types.
    struct Member {
        /// The dotted name of the enclosing type; empty outside of types.
        let owner: String
        let name: String
        let line: Int
        let isInExtension: Bool
    }

    /// The inheritance clause of a type or an extension.
    struct Inheritance {
        let type: String
        let parents: [[String]]
    }

    let tokens: [SwiftToken]
    private(set) var types: [TypeDeclaration] = []
    private(set) var members: [Member] = []
    private(set) var inheritances: [Inheritance] = []
    /// The names of local variables, parameters and labels.
    private(set) var localNames: Set<String> = []
    /// The tokens that declare parameters of generic types.
    private(set) var genericParameters: Set<Int> = []
    /// The enclosing type or extension of each token, as an index of ``contexts``.
    private(set) var context: [Int] = []
    private(set) var contexts: [[String]] = [[]]
    /// Whether every brace is closed.
    private(set) var isBalanced = true

    private struct Scope {
        /// The type that the brace opens; nil for the body of a function or a closure.
        let type: [String]?
        let isExtension: Bool
        let context: Int
    }

    private static let typeKeywords: Set = ["struct", "class", "enum", "protocol", "actor", "extension"]
    private static let modifiers: Set = [
        "static", "final", "mutating", "nonmutating", "nonisolated", "override", "class", "lazy", "weak", "unowned",
        "public", "package", "internal", "private", "fileprivate", "indirect", "convenience", "required", "dynamic",
        "unsafe", "isolated", "open",
    ]

    init(_ source: String) {
        tokens = SwiftTokenizer.tokens(of: source)
        context.reserveCapacity(tokens.count)
        var scopes: [Scope] = []
        var pending: Scope?
        for index in tokens.indices {
            context.append(scopes.last?.context ?? 0)
            let isInBody = scopes.last.map { $0.type == nil } ?? false
            switch tokens[index].text {
            case "{":
                scopes.append(
                    pending ?? Scope(type: nil, isExtension: false, context: scopes.last?.context ?? 0))
                pending = nil
            case "}":
                if scopes.popLast() == nil { isBalanced = false }
            case let keyword where Self.typeKeywords.contains(keyword) && isDeclaration(index):
                pending = openType(at: index, in: scopes.last { $0.type != nil })
            case "typealias", "associatedtype":
                addAlias(at: index, in: contexts[context[index]])
            case "func", "init", "subscript", "case", "var", "let":
                if isInBody {
                    if let next = token(index + 1) { localNames.insert(next.text) }
                } else if tokens[index].text == "func" || token(index - 1)?.text != "." {
                    addMember(at: index, in: scopes.last)
                }
            case ":":
                if let label = token(index - 1), label.isWord { localNames.insert(label.text) }
            default: break
            }
        }
        if !scopes.isEmpty { isBalanced = false }
    }

    private func token(_ index: Int) -> SwiftToken? { tokens.indices.contains(index) ? tokens[index] : nil }

    /// Whether a keyword declares a type.
    ///
    /// False for `class func` and for a member called `extension`.
    private func isDeclaration(_ index: Int) -> Bool {
        token(index - 1)?.text != "." && token(index + 1)?.isTypeName == true
    }

    /// The dotted names that begin at a token, and the index after them.
    private func path(from start: Int) -> (names: [String], end: Int) {
        var (names, index) = ([tokens[start].text], start + 1)
        while token(index)?.text == ".", let next = token(index + 1), next.isTypeName {
            names.append(next.text)
            index += 2
        }
        return (names, index)
    }

    private mutating func openType(at index: Int, in outer: Scope?) -> Scope {
        let isExtension = tokens[index].text == "extension"
        var (names, end) = path(from: index + 1)
        names = (outer?.type ?? []) + names
        let name = names.joined(separator: ".")
        if !isExtension { types.append(TypeDeclaration(name: name, line: tokens[index].line)) }
        if token(end)?.text == "<" { end = readGenericParameters(at: end, of: isExtension ? nil : name) }
        var parents: [[String]] = []
        while let next = token(end), next.text != "{", next.text != "where" {
            guard next.isTypeName else {
                end += 1
                continue
            }
            let parent = path(from: end)
            parents.append(parent.names)
            end = parent.end
        }
        if !parents.isEmpty { inheritances.append(Inheritance(type: name, parents: parents)) }
        contexts.append(names)
        return Scope(
            type: names, isExtension: isExtension || outer?.isExtension == true, context: contexts.count - 1)
    }

    /// Records the generic parameters of a type as nested types.
    ///
    /// The arguments of an extension are not recorded. Returns the index after the parameters or arguments.
    private mutating func readGenericParameters(at start: Int, of type: String?) -> Int {
        var (index, depth) = (start, 0)
        repeat {
            switch tokens[index].text {
            case "<": depth += 1
            case ">": depth -= 1
            default:
                if let type, depth == 1, tokens[index].isTypeName,
                    ["<", ",", "each"].contains(tokens[index - 1].text)
                {
                    genericParameters.insert(index)
                    types.append(
                        TypeDeclaration(name: "\(type).\(tokens[index].text)", line: tokens[index].line))
                }
            }
            index += 1
        } while depth > 0 && index < tokens.count
        return index
    }

    private mutating func addAlias(at index: Int, in context: [String]) {
        guard let name = token(index + 1), name.isTypeName else { return }
        var declaration = TypeDeclaration(
            name: (context + [name.text]).joined(separator: "."), line: tokens[index].line)
        if token(index + 2)?.text == "=", token(index + 3)?.isTypeName == true {
            declaration.alias = path(from: index + 3).names
        }
        types.append(declaration)
    }

    private mutating func addMember(at index: Int, in scope: Scope?) {
        guard !isPrivate(index), var next = token(index + 1) else { return }
        let owner = scope?.type?.joined(separator: ".") ?? ""
        let isInExtension = scope?.isExtension == true
        if tokens[index].text == "init" {
            var start = index + 1
            while let sign = token(start), sign.text != "(", sign.text != "{" { start += 1 }
            let label = token(start + 1).map { $0.isWord ? $0.text : "" } ?? ""
            members.append(
                Member(
                    owner: owner, name: "init(" + (label == "_" ? "" : label), line: tokens[index].line,
                    isInExtension: isInExtension))
            return
        }
        guard tokens[index].text == "case" else {
            if next.isWord {
                members.append(
                    Member(owner: owner, name: next.text, line: next.line, isInExtension: isInExtension))
            }
            return
        }
        // One `case` can declare several members: `case a, b(C), c`.
        var position = index + 1
        while next.isWord {
            members.append(Member(owner: owner, name: next.text, line: next.line, isInExtension: isInExtension))
            position += 1
            if token(position)?.text == "(" { position = endOfParentheses(at: position) }
            guard token(position)?.text == ",", let another = token(position + 1) else { return }
            (next, position) = (another, position + 1)
        }
    }

    private func endOfParentheses(at start: Int) -> Int {
        var (index, depth) = (start, 0)
        repeat {
            if tokens[index].text == "(" { depth += 1 }
            if tokens[index].text == ")" { depth -= 1 }
            index += 1
        } while depth > 0 && index < tokens.count
        return index
    }

    /// Whether a declaration is private to its file.
    ///
    /// The modifier `private(set)` does not make a declaration private.
    private func isPrivate(_ index: Int) -> Bool {
        var position = index - 1
        while let modifier = token(position) {
            if modifier.text == ")", token(position - 1)?.text == "set", token(position - 2)?.text == "(" {
                position -= 4
                continue
            }
            guard Self.modifiers.contains(modifier.text) else { return false }
            if modifier.text == "private" || modifier.text == "fileprivate" { return true }
            position -= 1
        }
        return false
    }
}
