# What Doxygen reads of a header. The comment at its top becomes that of the file, whose entities are
# documented only then. A typedef that repeats a tag is left out: it would be a second entity.
1s|^(/\*\|//) |/** @file */ \1 |
2s|^/\* |/** @file */ /* |
s/^typedef enum (\w+) (\{.*\}) \1;/enum \1 \2;/
s/^typedef (struct|enum) (tnd_\w+) \{/\1 \2 {/
s/^\} tnd_\w+;/};/
