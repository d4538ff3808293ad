/// The sources of a library in folders that are layers, and the references between them.
///
/// A reference is the name of a type, resolved like the compiler: through the enclosing types and their supertypes.
/// The use of a member counts as a reference if each declaration of that name is outside of types, or in an extension
/// of a foreign type or of a type in a lower layer.
struct LayeredSources {
    /// A use of a declaration of another layer.
    struct Reference: CustomStringConvertible {
        let path: String
        let line: Int
        let name: String
        let layer: String
        let declaredIn: String
        let declaredLayer: String

        var description: String {
            "\(path):\(line): \(layer) uses `\(name)` of \(declaredLayer) (\(declaredIn))"
        }
    }

    private struct Source {
        let path: String
        let layer: String
        let declarations: SwiftDeclarations
    }

    private struct Place {
        let source: Int
        let rank: Int
    }

    private var sources: [Source] = []
    /// The rank of each layer in the table.
    private var ranks: [String: Int] = [:]
    private var types: [String: Place] = [:]
    private var aliases: [String: (path: [String], context: [String])] = [:]
    private var parents: [String: [String]] = [:]
    /// By member name: the declaration in the lowest layer, and the extended types.
    ///
    /// A member outside of types has an empty type name. No type declares these members itself.
    private var members: [String: (place: Place, owners: Set<String>)] = [:]
    /// The initialisers in extensions, by type and first label.
    private var initializers: [String: Place] = [:]
    /// Sources with an unclosed brace, which cannot be analysed.
    private(set) var unreadable: [String] = []

    /// - Parameters:
    ///   - texts: the sources, with their paths below the folder of the target.
    ///   - layers: the names of the layers, bottom first.
    init(_ texts: [(path: String, text: String)], layers: [String]) {
        for (rank, layer) in layers.enumerated() { ranks[layer] = rank }
        sources = texts.map { path, text in
            Source(path: path, layer: String(path.prefix { $0 != "/" }), declarations: SwiftDeclarations(text))
        }
        unreadable = sources.filter { !$0.declarations.isBalanced }.map(\.path)
        indexTypes()
        indexMembers()
    }

    /// All references from one layer to another.
    func references() -> [Reference] { sources.indices.flatMap(references(from:)) }

    private func rank(_ source: Int) -> Int { ranks[sources[source].layer] ?? .max }

    private mutating func indexTypes() {
        for index in sources.indices {
            for type in sources[index].declarations.types {
                let place = Place(source: index, rank: rank(index))
                // A type may be declared once for each platform. The declaration in the highest layer is used.
                if let known = types[type.name], known.rank >= place.rank { continue }
                types[type.name] = place
                if let alias = type.alias {
                    aliases[type.name] = (alias, Array(type.name.split(separator: ".").map(String.init).dropLast()))
                }
            }
        }
        for source in sources {
            for inheritance in source.declarations.inheritances {
                let context = inheritance.type.split(separator: ".").map(String.init)
                for parent in inheritance.parents {
                    if let found = resolve(parent, in: Array(context.dropLast())).last {
                        parents[inheritance.type, default: []].append(found)
                    }
                }
            }
        }
    }

    private mutating func indexMembers() {
        var barred: Set<String> = []
        for index in sources.indices {
            let place = Place(source: index, rank: rank(index))
            for member in sources[index].declarations.members {
                let isRaised =
                    member.isInExtension && (types[member.owner].map { $0.rank < place.rank } ?? true)
                if member.name.hasPrefix("init(") {
                    let key = member.owner + "." + member.name
                    if !isRaised || types[member.owner] == nil {
                        barred.insert(key)
                    } else if initializers[key].map({ place.rank < $0.rank }) ?? true {
                        initializers[key] = place
                    }
                } else if !isRaised, !member.owner.isEmpty {
                    barred.insert(member.name)
                } else {
                    var known = members[member.name] ?? (place, [])
                    if place.rank < known.place.rank { known.place = place }
                    known.owners.insert(member.owner)
                    members[member.name] = known
                }
            }
        }
        for name in barred {
            members[name] = nil
            initializers[name] = nil
        }
    }

    // MARK: - Names

    /// The type of a named member of a type or its supertypes.
    private func member(_ name: String, of owner: String, _ depth: Int = 0) -> String? {
        let qualified = owner + "." + name
        if types[qualified] != nil { return qualified }
        guard depth < 8 else { return nil }
        for parent in parents[owner] ?? [] {
            if let found = member(name, of: parent, depth + 1) { return found }
        }
        return nil
    }

    /// The target of an alias, if it is a type of the sources.
    private func target(of type: String, _ depth: Int = 0) -> String {
        guard depth < 8, let alias = aliases[type], let found = resolve(alias.path, in: alias.context, depth + 1).last
        else { return type }
        return found == type ? type : target(of: found, depth + 1)
    }

    /// The types along a path of names, seen from inside a type.
    ///
    /// Empty when the first is not a type of the sources.
    private func resolve(_ path: [String], in context: [String], _ depth: Int = 0) -> [String] {
        guard depth < 8, let first = path.first else { return [] }
        var found: [String] = []
        if first == "Self" {
            found = [context.joined(separator: ".")]
        } else {
            for count in stride(from: context.count, to: 0, by: -1) where found.isEmpty {
                let owner = context.prefix(count).joined(separator: ".")
                found = (member(first, of: owner) ?? member(first, of: target(of: owner, depth + 1))).map { [$0] } ?? []
            }
            if found.isEmpty, types[first] != nil { found = [first] }
            if found.isEmpty, first == "Convoy", path.count > 1 { return resolve(Array(path.dropFirst()), in: []) }
        }
        for name in path.dropFirst() {
            guard let owner = found.last, let next = member(name, of: owner) ?? member(name, of: target(of: owner))
            else { break }
            found.append(next)
        }
        return found
    }

    // MARK: - References

    private func references(from index: Int) -> [Reference] {
        let source = sources[index]
        let code = source.declarations
        let tokens = code.tokens
        var found: [Reference] = []
        func note(_ name: String, _ place: Place, _ line: Int) {
            guard sources[place.source].layer != source.layer else { return }
            found.append(
                Reference(
                    path: source.path, line: line, name: name, layer: source.layer,
                    declaredIn: sources[place.source].path, declaredLayer: sources[place.source].layer))
        }
        var position = 0
        while position < tokens.count {
            defer { position += 1 }
            let token = tokens[position]
            let previous = position > 0 ? tokens[position - 1].text : ""
            if token.isTypeName {
                guard previous != "." || position > 1 && tokens[position - 2].text == "Convoy",
                    !Self.declaring.contains(previous), !code.genericParameters.contains(position)
                else { continue }
                let path = path(from: position, of: tokens)
                for name in resolve(path.names, in: code.contexts[code.context[position]]) {
                    if let place = types[name] { note(name, place, token.line) }
                }
                if path.label != nil, let type = resolve(path.names, in: code.contexts[code.context[position]]).last {
                    let initializer = target(of: type) + ".init(" + (path.label ?? "")
                    if let place = initializers[initializer] { note(initializer, place, token.line) }
                }
            } else if token.isWord, let member = members[token.text], !Self.declaring.contains(previous) {
                let isMeant =
                    previous == "."
                    ? !member.owners.contains("")
                    : !code.localNames.contains(token.text)
                        && (member.owners.contains("")
                            || member.owners.contains(code.contexts[code.context[position]].joined(separator: ".")))
                if isMeant { note(token.text, member.place, token.line) }
            }
        }
        return found
    }

    private static let declaring: Set = [
        "struct", "class", "enum", "protocol", "actor", "typealias", "associatedtype", "func", "var", "let", "case",
    ]

    /// The names joined by dots from a token on, without generic arguments.
    ///
    /// For a call, also the first argument label; empty if the argument has no label.
    private func path(from start: Int, of tokens: [SwiftToken]) -> (names: [String], label: String?) {
        var (names, index) = ([tokens[start].text], start + 1)
        while index < tokens.count {
            if tokens[index].text == "<", let end = endOfArguments(from: index, of: tokens) {
                index = end
            } else if tokens[index].text == ".", index + 1 < tokens.count, tokens[index + 1].isTypeName {
                names.append(tokens[index + 1].text)
                index += 2
            } else {
                break
            }
        }
        guard index + 2 < tokens.count, tokens[index].text == "(", tokens[index + 1].text != ")" else {
            return (names, nil)
        }
        return (names, tokens[index + 2].text == ":" ? tokens[index + 1].text : "")
    }

    /// The index after generic arguments; nil if the `<` is a comparison.
    private func endOfArguments(from start: Int, of tokens: [SwiftToken]) -> Int? {
        var depth = 0
        for index in start..<min(start + 60, tokens.count) {
            switch tokens[index].text {
            case "<": depth += 1
            case ">":
                depth -= 1
                if depth == 0 { return index + 1 }
            case "{", "}", ";", "=": return nil
            default: break
            }
        }
        return nil
    }
}
