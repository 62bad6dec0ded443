# The flags that everything is built with, and the few functions that rooms use.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

# The flat layout lets one LD_LIBRARY_PATH or LD_PRELOAD serve every test.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

set(BERTH_SANITIZE "" CACHE STRING "address or thread: build everything with that sanitizer")
option(BERTH_CRASH_POINTS "Compile the named crash points in (tests need them, releases do not)" OFF)

add_library(berth_flags INTERFACE)
target_compile_options(berth_flags INTERFACE
	$<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wconversion -Wsign-conversion
	-Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla -Wundef -Wimplicit-fallthrough -Werror>
	-fstack-protector-strong -fno-strict-aliasing -fno-plt)
target_compile_definitions(berth_flags INTERFACE _GNU_SOURCE BERTH_VERSION="${PROJECT_VERSION}")
target_include_directories(berth_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_options(berth_flags INTERFACE -Wl,-z,defs,-z,relro,-z,now)
if(BERTH_CRASH_POINTS)
	target_compile_definitions(berth_flags INTERFACE BERTH_CRASH_POINTS=1)
endif()
if(BERTH_SANITIZE STREQUAL "address")
	target_compile_options(berth_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
	target_link_options(berth_flags INTERFACE -fsanitize=address,undefined)
elseif(BERTH_SANITIZE STREQUAL "thread")
	target_compile_options(berth_flags INTERFACE -fsanitize=thread)
	target_link_options(berth_flags INTERFACE -fsanitize=thread)
endif()
if(BERTH_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
	# clang leaves the sanitizer runtime to the executable: a shared object can't pass -z defs.
	target_link_options(berth_flags INTERFACE -Wl,-z,undefs)
endif()

# berth_room(NAME SOURCES a.c b.c [NEEDS berth_base ...]): one layer as a static library.
function(berth_room name)
	cmake_parse_arguments(arg "" "" "SOURCES;NEEDS" ${ARGN})
	add_library(${name} STATIC ${arg_SOURCES})
	target_link_libraries(${name} PUBLIC berth_flags ${arg_NEEDS})
endfunction()

# berth_test(NAME SOURCES t.c [NEEDS lib ...] [LABELS unit] [TIMEOUT 60] [ENV A=b ...] [ARGS x]):
# one cmocka program, one CTest entry, its own process. The time-out is a watchdog, not a figure.
function(berth_test name)
	cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;NEEDS;LABELS;ENV;ARGS" ${ARGN})
	if(NOT arg_LABELS)
		set(arg_LABELS unit)
	endif()
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 120)
	endif()
	add_executable(${name} ${arg_SOURCES})
	target_link_libraries(${name} PRIVATE berth_flags ${arg_NEEDS} cmocka)
	add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
	set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
		SKIP_RETURN_CODE 77 ENVIRONMENT "${arg_ENV}")
endfunction()

# berth_script_test(NAME COMMAND sh-script args... [LABELS e2e] [TIMEOUT 120]): a script as a test;
# it finds the build in BERTH_BUILD and the sources in BERTH_SOURCE.
function(berth_script_test name)
	cmake_parse_arguments(arg "" "TIMEOUT" "COMMAND;LABELS;ENV" ${ARGN})
	if(NOT arg_LABELS)
		set(arg_LABELS e2e)
	endif()
	if(NOT arg_TIMEOUT)
		set(arg_TIMEOUT 120)
	endif()
	add_test(NAME ${name} COMMAND ${arg_COMMAND})
	set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
		SKIP_RETURN_CODE 77
		ENVIRONMENT "BERTH_BUILD=${CMAKE_BINARY_DIR};BERTH_SOURCE=${CMAKE_SOURCE_DIR};${arg_ENV}")
endfunction()
