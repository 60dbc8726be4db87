# find_package(nativecall CONFIG): the target nativecall::nativecall, which is headers alone.
#
# `nativecall --cmakedir` prints this folder. Headers include Python.h: link Python::Module too.
if(NOT TARGET nativecall::nativecall)
  add_library(nativecall::nativecall INTERFACE IMPORTED)
  get_filename_component(_nativecall_package "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  set_target_properties(
    nativecall::nativecall PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_nativecall_package}/include"
  )
  unset(_nativecall_package)
endif()
