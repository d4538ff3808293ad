// The help of `convoy completions`.

extension HelpText {
    static let completions = """
        Usage: convoy completions bash|zsh|fish

        Prints a script that completes commands, options and their values in a shell: files behind --input, directories
        behind --output-dir, the words that --existing and --transport take.

        Options:
          -h, --help  print this

        For this session:
          bash    source <(convoy completions bash)
          zsh     source <(convoy completions zsh)       after compinit
          fish    convoy completions fish | source

        For good:
          bash    convoy completions bash > ~/.local/share/bash-completion/completions/convoy
          zsh     convoy completions zsh > DIR/_convoy   where DIR is a directory of $fpath
          fish    convoy completions fish > ~/.config/fish/completions/convoy.fish

        Exit status:
          0    the script was printed
          2    usage error
          141  standard output was closed
        """
}
